package executor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNetworkOf(t *testing.T) {
	t.Parallel()
	require.Empty(t, NetworkOf([]string{"HTTPS_PROXY=", "PATH=/bin"}))
	n := NetworkOf([]string{"HTTP_PROXY=a:secret-1@proxy:80", "http_proxy=http://b:secret-2@proxy", "ALL_PROXY=socks5h://secret-3@proxy",
		"SSL_CERT_DIR=/one:/two", "GIT_SSL_CAINFO=/git.pem", "CURL_CA_BUNDLE=/curl.pem"})
	require.Equal(t, []string{
		"ALL_PROXY=socks5h://secret-3@proxy", "CURL_CA_BUNDLE=/curl.pem", "GIT_SSL_CAINFO=/git.pem", "GIT_SSL_CAPATH=/one",
		"HTTP_PROXY=a:secret-1@proxy:80", "SSL_CERT_DIR=/one:/two", "all_proxy=socks5h://secret-3@proxy",
		"http_proxy=http://b:secret-2@proxy",
	}, n.without(nil))
	require.NotContains(t, strings.Join(n.without(map[string]string{"http_proxy": ""}), " "), "secret-1")
	require.Equal(t, []string{"/curl.pem", "/git.pem", "/one", "/two"}, n.authorities())
	require.Subset(t, n.secrets(), []string{"secret-1", "a:secret-1", "secret-2", "secret-3"})
}

package farm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"svc/fault"
)

// parts reads a manifest and chunks of the given sizes, and returns their texts.
func parts(r io.Reader, sizes ...int64) (texts []string, err error) {
	p := &partReader{r: bufio.NewReaderSize(r, 1024), delimiter: "--b"}
	for i := -1; ; i++ {
		name, err := p.next()
		if errors.Is(err, io.EOF) {
			return texts, nil
		}
		var text []byte
		if err == nil && i < 0 {
			text, err = p.small(100)
		} else if err == nil {
			text, err = io.ReadAll(p.chunk(name, sizes[i]))
		}
		if err != nil {
			return texts, err
		}
		texts = append(texts, name+"="+string(text))
	}
}

func form(texts ...string) string {
	var b strings.Builder
	for i, text := range texts {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("--b\r\nContent-Disposition: form-data; name=\"f1." + string(rune('0'+i)) + "\"\r\nContent-Type: text/plain\r\n\r\n" + text)
	}
	return b.String() + "\r\n--b--\r\n"
}

func TestPartReader(t *testing.T) {
	t.Parallel()
	chunk := strings.Repeat("\r\n--b", 1000) // a chunk may contain the boundary
	text := form("{\r\n}", chunk, "", "\r\n")
	want := []string{"f1.0={\r\n}", "f1.1=" + chunk, "f1.2=", "f1.3=\r\n"}
	for _, r := range []io.Reader{
		strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text)),
		strings.NewReader("\r\n" + text), strings.NewReader(strings.TrimSuffix(text, "\r\n")), strings.NewReader(text + "more"),
	} {
		got, err := parts(r, int64(len(chunk)), 0, 2)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for at := range len(text) - len("\r\n") {
		_, err := parts(strings.NewReader(text[:at]), int64(len(chunk)), 0, 2)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "at %d", at)
	}
}

func TestPartReaderRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"a longer chunk":                {form("{}", "1234567890"), fault.ErrValidation},
		"a longer one with line break":  {form("{}", "12345\r\n890"), fault.ErrValidation},
		"a shorter chunk before others": {form("{}", "123", strings.Repeat("x", 100)), fault.ErrValidation},
		"no boundary":                   {"hello\r\n", errMalformed},
		"a boundary that goes on":       {"--bc\r\n", errMalformed},
		"a malformed header":            {"--b\r\nno colon\r\n\r\n", errMalformed},
		"a long line in the header":     {"--b\r\nX: " + strings.Repeat("x", 2000), errPartHeader},
		"a long header":                 {"--b\r\n" + strings.Repeat("X: y\r\n", partHeader), errPartHeader},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parts(strings.NewReader(c.text), 5, 100)
			require.ErrorIs(t, err, c.want)
		})
	}
	texts, err := parts(strings.NewReader(form(strings.Repeat("x", 300))))
	require.Error(t, err, "what follows a too large manifest is no delimiter")
	require.Greater(t, len(texts[0]), 100)
	texts, err = parts(strings.NewReader("--b\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\n{}\r\n--b--"))
	require.NoError(t, err)
	require.Equal(t, []string{"={}"}, texts)
}

// Reading a chunk copies nothing: it goes from the connection into the caller's block.
func TestChunkIsReadDirectly(t *testing.T) {
	t.Parallel()
	r := &largest{r: strings.NewReader(form("{}", strings.Repeat("x", 1<<20)))}
	p := &partReader{r: bufio.NewReaderSize(r, 1024), delimiter: "--b"}
	_, err := p.next()
	require.NoError(t, err)
	_, err = p.small(100)
	require.NoError(t, err)
	name, err := p.next()
	require.NoError(t, err)
	var out bytes.Buffer
	_, err = io.CopyBuffer(struct{ io.Writer }{&out}, p.chunk(name, 1<<20), make([]byte, 256<<10))
	require.NoError(t, err)
	require.Equal(t, 1<<20, out.Len())
	require.Equal(t, 256<<10, r.largest)
}

type largest struct {
	r       io.Reader
	largest int
}

func (l *largest) Read(b []byte) (int, error) {
	l.largest = max(l.largest, len(b))
	return l.r.Read(b)
}

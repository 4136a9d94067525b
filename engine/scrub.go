package engine

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// hidden takes the place of a credential.
const hidden = "[credential]"

// minSecret is the length from which a text is taken for a secret: replacing shorter ones would garble
// all text and protect nothing.
const minSecret = 8

// A scrubber removes a step's credentials from what the step says.
type scrubber struct {
	mu       sync.Mutex
	secrets  []string
	replacer *strings.Replacer
}

// hide makes s remove the texts, also as they appear in URLs and in JSON.
func (s *scrubber) hide(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		if len(text) < minSecret {
			continue
		}
		quoted, _ := json.Marshal(text) // strings always encode
		s.secrets = append(s.secrets, text, url.QueryEscape(text), url.PathEscape(text), strings.Trim(string(quoted), `"`))
	}
	slices.SortFunc(s.secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) // the longest first
	s.secrets = slices.Compact(s.secrets)
	var pairs []string
	for _, text := range s.secrets {
		pairs = append(pairs, text, hidden)
	}
	s.replacer = strings.NewReplacer(pairs...)
}

// clean returns text without the secrets.
func (s *scrubber) clean(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

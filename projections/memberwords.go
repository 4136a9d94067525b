package projections

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"svc/events"
	"svc/input"
	"svc/projections/fold"
)

// A memberWord is a text that a search for a member may begin with: where the name
// or the address begins, or a word in the name or the domain, up to its end.
type memberWord struct {
	Workspace events.ID `db:"workspace_id"`
	ID        string    `db:"word_id"` // the member's id and a number
	Member    events.ID `db:"member_id"`
	NameKey   string    `db:"name_key"` // as in members: a search is in their order
	Word      string    `db:"word"`
}

// memberWords is the view of what members are searched by. A member has as many
// rows as the texts, numbered from 0, which are more than a key can tell: whoever
// leaves may have had all of them.
var memberWords = &fold.Table[string, memberWord]{
	View: "member_words", KeptBy: fold.Inline, Key: "word_id",
	Kinds: []string{"member"},
	Keys: func(r events.Record) []string {
		switch e := r.Event.(type) {
		case events.MemberJoined:
			return wordIDs(e.Member, len(wordsOf(e.Name, e.Email)))
		case events.MemberProfileChanged:
			return wordIDs(e.Member, wordsMost)
		case events.MemberLeft:
			return wordIDs(e.Member, wordsMost)
		case events.MemberRemoved:
			return wordIDs(e.Member, wordsMost)
		}
		return nil
	},
	Apply: func(id string, _ *memberWord, r events.Record) *memberWord {
		switch e := r.Event.(type) {
		case events.MemberJoined:
			return wordOf(id, r.Workspace, e.Member, e.Name, e.Email)
		case events.MemberProfileChanged:
			return wordOf(id, r.Workspace, e.Member, e.Name, e.Email)
		}
		return nil
	},
}

// wordOf returns the row of an id, nil if the member has no such text.
func wordOf(id string, workspace, member events.ID, name, email string) *memberWord {
	_, number, _ := strings.Cut(id, "/")
	n, err := strconv.Atoi(number)
	words := wordsOf(name, email)
	if err != nil || n >= len(words) {
		return nil
	}
	return &memberWord{Workspace: workspace, ID: id, Member: member, NameKey: memberKey(name, email), Word: words[n]}
}

func wordIDs(member events.ID, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = member.String() + "/" + strconv.Itoa(i)
	}
	return list
}

// wordsMost is how many texts a member is found by: the name, five more words of
// it, the address, and its domain.
const (
	nameWords = 6
	wordsMost = nameWords + 2
)

func wordsOf(name, email string) (words []string) {
	add := func(word string) {
		if word != "" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	key, within := foldedText(name), false
	add(key)
	for i, r := range key {
		begins := !within
		within = unicode.In(r, unicode.L, unicode.N, unicode.M)
		if begins && within && len(words) < nameWords {
			add(key[i:])
		}
	}
	address := input.Lower(email)
	_, domain, _ := strings.Cut(address, "@")
	add(address)
	add(domain)
	return words
}

// memberKey is what a member is ordered by: the name in lower case and without
// marks, so that Zoë is beside Zoe, or the address where there is no name.
func memberKey(name, email string) string {
	if key := foldedText(name); key != "" {
		return key
	}
	return input.Lower(email)
}

// foldedText is a text as those that look for it may write it.
func foldedText(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFKD.String(text))
	return strings.Join(strings.Fields(strings.ToLower(text)), " ")
}

package projections

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"svc/events"
	"svc/input"
	"svc/projections/fold"
)

// A memberWord is a text that a search for a member may begin with: the name or the address, the
// domain, or the rest of the name from any word on.
type memberWord struct {
	Workspace events.ID `db:"workspace_id"`
	ID        string    `db:"word_id"` // the member's id and a number
	Member    events.ID `db:"member_id"`
	NameKey   string    `db:"name_key"` // as in members: results are in that order
	Word      string    `db:"word"`
}

// memberWords is the view by which members are searched. A member has one row for each text,
// numbered from 0. An event that removes a member does not contain the texts, so its keys are all
// possible numbers.
var memberWords = &fold.Table[string, memberWord]{
	View: "member_words", Updated: fold.Inline, Key: "word_id",
	Kinds: []string{"member"},
	Keys: func(r events.Record) []string {
		switch e := r.Event.(type) {
		case events.MemberJoined:
			return wordIDs(e.Member, len(wordsOf(e.Name, e.Email)))
		case events.MemberProfileChanged:
			return wordIDs(e.Member, maxWords)
		case events.MemberLeft:
			return wordIDs(e.Member, maxWords)
		case events.MemberRemoved:
			return wordIDs(e.Member, maxWords)
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

// wordOf returns the row with an id, or nil if the member has no such text.
func wordOf(id string, workspace, member events.ID, name, email string) *memberWord {
	_, number, _ := strings.Cut(id, "/")
	n, err := strconv.Atoi(number)
	words := wordsOf(name, email)
	if err != nil || n >= len(words) {
		return nil
	}
	return &memberWord{Workspace: workspace, ID: id, Member: member, NameKey: memberSortKey(name, email), Word: words[n]}
}

func wordIDs(member events.ID, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = member.String() + "/" + strconv.Itoa(i)
	}
	return list
}

// maxWords is the maximal number of texts of a member: the name, five more words of it, the
// address, and its domain.
const (
	nameWords = 6
	maxWords  = nameWords + 2
)

func wordsOf(name, email string) (words []string) {
	add := func(word string) {
		if word != "" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	key, within := input.SearchText(name), false
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

// memberSortKey returns the sort key of a member: the name as searches compare it, so that
// Zoë sorts beside Zoe, or the address if there is no name.
func memberSortKey(name, email string) string {
	if key := input.SearchText(name); key != "" {
		return key
	}
	return input.Lower(email)
}

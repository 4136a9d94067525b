package mask

import (
	"bytes"
	"slices"
)

// rootState is the state in which no prefix of a needle is matched.
const rootState = 0

// A node is a state of the automaton: a prefix of a needle. Most nodes have a single successor,
// which is the next element of automaton.nodes. There are fifteen nodes or more per byte of secret, so rare
// data is kept in maps beside them.
type node struct {
	fail  int32 // state of the longest proper suffix that is also a prefix of a needle
	depth int32 // length of the prefix
	next  byte  // byte that leads to the next element, if hasNext
	flags uint8
}

const (
	hasNext     = 1 << iota // the next element is a successor
	hasBranches             // has successors in automaton.branches
	isMatch                 // ends with a needle, whose length is in automaton.match
)

// An edge leads to a successor that is not the next element.
type edge struct {
	on byte
	to int32
}

// A Set is an immutable set of needles. It may be shared between goroutines.
type Set struct {
	forms  []form
	begins [256]bool // whether a needle of a form may begin with the byte
}

// newSet returns the set of needles, none of which is empty. It sorts the lists.
func newSet(n needles) *Set {
	s := &Set{}
	for _, f := range []form{
		{needles: newAutomaton(n.plain)},
		{needles: newAutomaton(n.wrapped), wrapped: true},
		{needles: newAutomaton(n.url), decode: decodePercent, escape: '%'},
		{needles: newAutomaton(n.escaped), decode: decodeBackslash, escape: '\\'},
	} {
		if len(f.needles.nodes) == 1 {
			continue // no needles
		}
		s.forms = append(s.forms, f)
		for b, to := range f.needles.root {
			s.begins[b] = s.begins[b] || to != rootState || f.decode != nil && byte(b) == f.escape
		}
	}
	return s
}

// An automaton finds all occurrences of its needles.
type automaton struct {
	nodes    []node
	root     [256]int32 // successors of rootState
	branches map[int32][]edge
	match    map[int32]int32 // length of the longest needle that ends at a node
}

// newAutomaton builds the automaton of needles, none of which is empty. It sorts needles.
func newAutomaton(needles [][]byte) *automaton {
	slices.SortFunc(needles, bytes.Compare)
	count, longest := 1, 0
	for i, n := range needles {
		count, longest = count+len(n), max(longest, len(n))
		if i > 0 {
			count -= commonPrefix(needles[i-1], n)
		}
	}
	s := &automaton{nodes: make([]node, 1, count), branches: map[int32][]edge{}, match: map[int32]int32{}}
	var before []byte
	path := make([]int32, longest+1) // nodes of the previous needle, by depth
	for _, n := range needles {
		s.add(n, path, commonPrefix(before, n))
		before = n
	}
	s.link(longest)
	return s
}

// commonPrefix returns the length of the longest common prefix.
func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// add adds a needle whose first from bytes have nodes in path already.
func (s *automaton) add(needle []byte, path []int32, from int) {
	for depth := from; depth < len(needle); depth++ {
		at, to, b := path[depth], int32(len(s.nodes)), needle[depth]
		s.nodes = append(s.nodes, node{depth: int32(depth + 1)})
		switch n := &s.nodes[at]; {
		case at == rootState:
			s.root[b] = to
		case at+1 == to:
			n.next, n.flags = b, n.flags|hasNext
		default:
			n.flags |= hasBranches
			s.branches[at] = append(s.branches[at], edge{b, to})
		}
		path[depth+1] = to
	}
	end := path[len(needle)]
	s.nodes[end].flags |= isMatch
	s.match[end] = int32(len(needle))
}

// link sets the fail states in order of depth, since a fail state is always shallower than its
// node.
func (s *automaton) link(longest int) {
	for _, at := range s.byDepth(longest) {
		n := s.nodes[at]
		if n.flags&hasNext != 0 {
			s.setFail(at+1, s.step(n.fail, n.next))
		}
		for _, e := range s.branches[at] {
			s.setFail(e.to, s.step(n.fail, e.on))
		}
	}
}

// setFail sets the fail state of a node. A needle that ends at the fail state ends at the node too.
func (s *automaton) setFail(to, fail int32) {
	n := &s.nodes[to]
	n.fail = fail
	if most := max(s.match[to], s.match[fail]); most > 0 {
		n.flags |= isMatch
		s.match[to] = most
	}
}

// byDepth returns all nodes except the root in order of depth, by counting sort.
func (s *automaton) byDepth(longest int) []int32 {
	from := make([]int32, longest+2)
	for _, n := range s.nodes[1:] {
		from[n.depth+1]++
	}
	for d := 1; d < len(from); d++ {
		from[d] += from[d-1]
	}
	list := make([]int32, len(s.nodes)-1)
	for i, n := range s.nodes[1:] {
		list[from[n.depth]] = int32(i + 1)
		from[n.depth]++
	}
	return list
}

// step returns the state that follows on byte b.
func (s *automaton) step(at int32, b byte) int32 {
	for at != rootState {
		n := &s.nodes[at]
		if n.flags&hasNext != 0 && n.next == b {
			return at + 1
		}
		if n.flags&hasBranches != 0 {
			for _, e := range s.branches[at] {
				if e.on == b {
					return e.to
				}
			}
		}
		at = n.fail
	}
	return s.root[b]
}

// matched returns the length of the longest needle that ends at a state, or 0.
func (s *automaton) matched(at int32) int {
	if s.nodes[at].flags&isMatch == 0 {
		return 0
	}
	return int(s.match[at])
}

// depth returns the length of the prefix that a state is.
func (s *automaton) depth(at int32) int { return int(s.nodes[at].depth) }

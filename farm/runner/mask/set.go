package mask

import (
	"bytes"
	"slices"
)

// none is the state in which nothing of a needle has been seen.
const none = 0

// A node is a prefix of a needle. Most have one successor, which lies behind them: there are
// twenty nodes for each byte of a secret, so that what few of them have is kept beside them.
type node struct {
	fail  int32 // its longest proper suffix that is a prefix of a needle too
	depth int32 // its length
	next  byte  // by which the node behind it follows, if it goesOn
	flags uint8
}

const (
	goesOn   = 1 << iota // the node behind it is its successor
	branches             // it has successors in Set.branches
	ends                 // a needle ends with it, of the length in Set.match
)

// An edge is a successor that does not lie behind its node.
type edge struct {
	by byte
	to int32
}

// A Set is what to hide. It does not change and may be shared.
type Set struct {
	nodes    []node
	root     [256]int32 // successors of none
	branches map[int32][]edge
	match    map[int32]int32 // length of the longest needle that a node ends with
}

// Len is the number of prefixes that are told apart, a measure of memory.
func (s *Set) Len() int { return len(s.nodes) }

// newSet builds the automaton of needles, none of which is empty. It puts them in order.
func newSet(needles [][]byte) *Set {
	slices.SortFunc(needles, bytes.Compare)
	count, longest := 1, 0
	for i, n := range needles {
		count, longest = count+len(n), max(longest, len(n))
		if i > 0 {
			count -= shared(needles[i-1], n)
		}
	}
	s := &Set{nodes: make([]node, 1, count), branches: map[int32][]edge{}, match: map[int32]int32{}}
	var before []byte
	path := make([]int32, longest+1) // the nodes of the needle before, by their depth
	for _, n := range needles {
		s.add(n, path, shared(before, n))
		before = n
	}
	s.link(longest)
	return s
}

// shared is the length of the longest prefix of both.
func shared(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// add adds a needle of which the first bytes are in path already.
func (s *Set) add(needle []byte, path []int32, from int) {
	for depth := from; depth < len(needle); depth++ {
		at, to, b := path[depth], int32(len(s.nodes)), needle[depth]
		s.nodes = append(s.nodes, node{depth: int32(depth + 1)})
		switch n := &s.nodes[at]; {
		case at == none:
			s.root[b] = to
		case at+1 == to:
			n.next, n.flags = b, n.flags|goesOn
		default:
			n.flags |= branches
			s.branches[at] = append(s.branches[at], edge{b, to})
		}
		path[depth+1] = to
	}
	end := path[len(needle)]
	s.nodes[end].flags |= ends
	s.match[end] = int32(len(needle))
}

// link sets where each state goes on that its byte does not continue, the shortest first:
// the suffix of a state is shorter than it.
func (s *Set) link(longest int) {
	for _, at := range s.byDepth(longest) {
		n := s.nodes[at]
		if n.flags&goesOn != 0 {
			s.follow(at+1, s.step(n.fail, n.next))
		}
		for _, e := range s.branches[at] {
			s.follow(e.to, s.step(n.fail, e.by))
		}
	}
}

// follow notes the longest suffix of a node, whose needles end with the node too.
func (s *Set) follow(to, fail int32) {
	n := &s.nodes[to]
	n.fail = fail
	if most := max(s.match[to], s.match[fail]); most > 0 {
		n.flags |= ends
		s.match[to] = most
	}
}

// byDepth lists all nodes but none in the order of their depths.
func (s *Set) byDepth(longest int) []int32 {
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

// step returns the state after b.
func (s *Set) step(at int32, b byte) int32 {
	for at != none {
		n := &s.nodes[at]
		if n.flags&goesOn != 0 && n.next == b {
			return at + 1
		}
		if n.flags&branches != 0 {
			for _, e := range s.branches[at] {
				if e.by == b {
					return e.to
				}
			}
		}
		at = n.fail
	}
	return s.root[b]
}

// matched is the length of the longest needle that ends with the state, or 0.
func (s *Set) matched(at int32) int {
	if s.nodes[at].flags&ends == 0 {
		return 0
	}
	return int(s.match[at])
}

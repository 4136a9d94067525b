package policy

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// An Error says what is wrong in the policy file, and where.
type Error struct {
	Line, Column int
	Problem      string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", File, e.Problem)
	}
	return fmt.Sprintf("%s, line %d, column %d: %s", File, e.Line, e.Column, e.Problem)
}

func at(n *yaml.Node, format string, args ...any) error {
	return &Error{n.Line, n.Column, fmt.Sprintf(format, args...)}
}

// fields reads a mapping: each key has a reader of its value.
type fields map[string]func(*yaml.Node) error

// read applies the readers to a mapping. A key that is unknown or there twice is an error.
func (f fields) read(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return at(n, "a mapping is expected here")
	}
	var seen []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		set, known := f[key.Value]
		switch {
		case !known || key.Kind != yaml.ScalarNode:
			return at(key, "%q is not known here", key.Value)
		case slices.Contains(seen, key.Value):
			return at(key, "%q is there twice", key.Value)
		}
		seen = append(seen, key.Value)
		if err := set(value); err != nil {
			return err
		}
	}
	return nil
}

// each calls do with the elements of a list.
func each(limit int, do func(*yaml.Node) error) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.SequenceNode {
			return at(n, "a list is expected here")
		}
		if len(n.Content) > limit {
			return at(n, "the list has more than %d elements", limit)
		}
		for _, element := range n.Content {
			if err := do(element); err != nil {
				return err
			}
		}
		return nil
	}
}

func text(into *string, limit int) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" && n.ShortTag() != "!!int" && n.ShortTag() != "!!float" && n.ShortTag() != "!!bool" {
			return at(n, "a text is expected here")
		}
		if n.Value == "" || len(n.Value) > limit {
			return at(n, "the text has to have 1 to %d bytes", limit)
		}
		*into = n.Value
		return nil
	}
}

func texts(into *[]string, count, limit int) func(*yaml.Node) error {
	return each(count, func(n *yaml.Node) error {
		var s string
		err := text(&s, limit)(n)
		*into = append(*into, s)
		return err
	})
}

func number[T int | int64](into *T, low, high T) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(into) != nil {
			return at(n, "a whole number is expected here")
		}
		if *into < low || *into > high {
			return at(n, "the number has to be %d to %d", low, high)
		}
		return nil
	}
}

func decimal(into *float64, high float64) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.Decode(into) != nil || !(*into > 0 && *into <= high) {
			return at(n, "a number above 0, at most %g, is expected here", high)
		}
		return nil
	}
}

// noAliases refuses what makes a small file large.
func noAliases(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return at(n, "anchors and aliases are not allowed")
	}
	for _, c := range n.Content {
		if err := noAliases(c); err != nil {
			return err
		}
	}
	return nil
}

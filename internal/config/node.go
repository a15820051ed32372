package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// node is a YAML value with its position.
type node struct {
	value ast.Node
	line  int
	path  string
}

// field is a value of a mapping, its key, and the line of the key.
type field struct {
	key string
	at  int
	node
}

// fields returns the entries of a mapping, or nil if n is not one. Duplicate keys, and keys that
// are not text, are reported and left out.
func (p *problems) fields(n node) []field {
	var pairs []*ast.MappingValueNode
	switch m := n.value.(type) {
	case *ast.MappingNode:
		pairs = m.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{m}
	default:
		p.add(n.line, n.path, "must be a mapping of names to values%s", unsupported(n.value))
		return nil
	}
	out := make([]field, 0, len(pairs))
	lines := make(map[string]int, len(pairs))
	for _, pair := range pairs {
		line := lineOf(pair.Key, n.line)
		key, ok := keyOf(pair.Key)
		path := join(n.path, key)
		switch {
		case !ok:
			p.add(line, n.path, "must have keys that are plain text%s", unsupported(pair.Key))
		case lines[key] != 0:
			p.add(line, path, "stands twice, first on line %d", lines[key])
		default:
			lines[key] = line
			out = append(out, field{key, line, node{pair.Value, lineOf(pair.Value, line), path}})
		}
	}
	return out
}

func keyOf(key ast.MapKeyNode) (string, bool) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return key.GetToken().Value, true // a stream may be named 2026 or on
	}
	return "", false
}

// join extends a path. It quotes a key that contains special characters.
func join(path, key string) string {
	plain := key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if !plain {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// only reports the fields that are not allowed, and returns the others by key, or nil if n is not a
// mapping.
func (p *problems) only(n node, allowed ...string) map[string]node {
	fields := p.fields(n)
	if fields == nil {
		return nil
	}
	out := map[string]node{}
	for _, f := range fields {
		if !slices.Contains(allowed, f.key) {
			p.add(f.at, f.path, "unknown field; allowed are %s", strings.Join(allowed, ", "))
			continue
		}
		out[f.key] = f.node
	}
	return out
}

// text returns a text that is not empty, or "" if there is none or it is invalid.
func (p *problems) text(n node, ok bool) string {
	if !ok {
		return ""
	}
	switch v := n.value.(type) {
	case *ast.StringNode:
		if v.Value == "" {
			p.add(n.line, n.path, "must not be empty")
		}
		return v.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		p.add(n.line, n.path, "must be text: write %q", n.value.GetToken().Value)
	default:
		p.add(n.line, n.path, "must be text%s", unsupported(n.value))
	}
	return ""
}

// scalar returns a text or a number as it is written.
func (p *problems) scalar(n node) (string, bool) {
	switch v := n.value.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.IntegerNode, *ast.FloatNode:
		return n.value.GetToken().Value, true
	}
	return "", false
}

// yesOrNo returns a value that is true or false, and nil if it is neither.
func (p *problems) yesOrNo(n node) *bool {
	if v, ok := n.value.(*ast.BoolNode); ok {
		return &v.Value
	}
	p.add(n.line, n.path, "must be true or false%s", unsupported(n.value))
	return nil
}

// items returns the elements of a sequence.
func (p *problems) items(n node) []node {
	s, ok := n.value.(*ast.SequenceNode)
	if !ok {
		p.add(n.line, n.path, "must be a list, as [a, b]%s", unsupported(n.value))
		return nil
	}
	out := make([]node, len(s.Values))
	for i, v := range s.Values {
		out[i] = node{v, lineOf(v, n.line), n.path + index(i)}
	}
	return out
}

// unsupported explains values that other YAML readers accept.
func unsupported(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode:
		return "; there is nothing"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return "; anchors and aliases are not supported"
	case *ast.TagNode:
		return "; tags are not supported"
	}
	return ""
}

func lineOf(n ast.Node, fallback int) int {
	if n == nil {
		return fallback
	}
	t := n.GetToken()
	if _, empty := n.(*ast.NullNode); empty || t == nil || t.Position == nil || t.Position.Line < 1 {
		return fallback // an absent value has the position of the next token
	}
	return t.Position.Line
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

package powertools

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A value is a value of JSON: nil, bool, a number, a text, a list or an object.
type value any

// A number is a number as it was written.
type number string

// A text has one rune for each code point. Unlike a string of Go it can hold half of a surrogate
// pair, which all three languages keep.
type text []rune

type list []value

// An object has its fields in the order of their first occurrence. The last value of a name wins.
type object struct {
	names  []text
	values []value
}

// maxDepth is how deep values may be nested.
const maxDepth = 500

var errSyntax = errors.New("the payload is no JSON")

// A parser reads one value.
type parser struct {
	in    []byte
	at    int
	depth int
}

func parse(in []byte) (value, error) {
	if !utf8.Valid(in) {
		return nil, fmt.Errorf("%w: it is not UTF-8", errSyntax)
	}
	p := &parser{in: in}
	v, err := p.value()
	if err == nil && p.peek() != 0 {
		err = p.unexpected()
	}
	return v, err
}

func (p *parser) unexpected() error { return fmt.Errorf("%w: at byte %d", errSyntax, p.at+1) }

// peek skips white space and returns the next byte, or 0 at the end.
func (p *parser) peek() byte {
	for p.at < len(p.in) {
		switch c := p.in[p.at]; c {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return c
		}
	}
	return 0
}

func (p *parser) value() (value, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("%w: it is nested more than %d times", errSyntax, maxDepth)
	}
	defer func() { p.depth-- }()
	switch c := p.peek(); {
	case c == '{':
		return p.object()
	case c == '[':
		return p.list()
	case c == '"':
		return p.text()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for word, v := range map[string]value{"null": nil, "true": true, "false": false} {
		if rest := p.in[p.at:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
			p.at += len(word)
			return v, nil
		}
	}
	return nil, p.unexpected()
}

// items reads the items between brackets, with commas.
func (p *parser) items(end byte, item func() error) error {
	p.at++
	if p.peek() == end {
		p.at++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch p.peek() {
		case ',':
			p.at++
		case end:
			p.at++
			return nil
		default:
			return p.unexpected()
		}
	}
}

func (p *parser) list() (value, error) {
	l := list{}
	err := p.items(']', func() error {
		v, err := p.value()
		l = append(l, v)
		return err
	})
	return l, err
}

func (p *parser) object() (value, error) {
	o := object{}
	at := map[string]int{}
	err := p.items('}', func() error {
		if p.peek() != '"' {
			return p.unexpected()
		}
		name, err := p.text()
		if err != nil {
			return err
		}
		if p.peek() != ':' {
			return p.unexpected()
		}
		p.at++
		v, err := p.value()
		key := fmt.Sprint([]rune(name))
		if i, twice := at[key]; twice {
			o.values[i] = v
			return err
		}
		at[key] = len(o.names)
		o.names, o.values = append(o.names, name), append(o.values, v)
		return err
	})
	return o, err
}

func (p *parser) number() (value, error) {
	start := p.at
	if p.in[p.at] == '-' {
		p.at++
	}
	first := p.at
	if p.digits() == 0 || p.in[first] == '0' && p.at-first > 1 {
		return nil, p.unexpected()
	}
	if p.at < len(p.in) && p.in[p.at] == '.' {
		p.at++
		if p.digits() == 0 {
			return nil, p.unexpected()
		}
	}
	if p.at < len(p.in) && (p.in[p.at] == 'e' || p.in[p.at] == 'E') {
		p.at++
		if p.at < len(p.in) && (p.in[p.at] == '+' || p.in[p.at] == '-') {
			p.at++
		}
		if p.digits() == 0 {
			return nil, p.unexpected()
		}
	}
	return number(p.in[start:p.at]), nil
}

func (p *parser) digits() (n int) {
	for p.at < len(p.in) && p.in[p.at] >= '0' && p.in[p.at] <= '9' {
		p.at++
		n++
	}
	return n
}

func (p *parser) text() (text, error) {
	out := text{}
	p.at++
	for p.at < len(p.in) {
		r, size := utf8.DecodeRune(p.in[p.at:])
		switch {
		case r == '"':
			p.at++
			return joined(out), nil
		case r < ' ':
			return nil, p.unexpected()
		case r != '\\':
			p.at += size
		default:
			var err error
			if r, err = p.escape(); err != nil {
				return nil, err
			}
		}
		out = append(out, r)
	}
	return nil, p.unexpected()
}

// escape reads an escape sequence; a half of a surrogate pair is a rune of its own.
func (p *parser) escape() (rune, error) {
	p.at++
	if p.at == len(p.in) {
		return 0, p.unexpected()
	}
	c := p.in[p.at]
	if c == 'u' && p.at+5 <= len(p.in) {
		n, err := strconv.ParseUint(string(p.in[p.at+1:p.at+5]), 16, 16)
		if err != nil {
			return 0, p.unexpected()
		}
		p.at += 5
		return rune(n), nil
	}
	i := slices.Index([]byte(`"\/bfnrt`), c)
	if i < 0 {
		return 0, p.unexpected()
	}
	p.at++
	return []rune("\"\\/\b\f\n\r\t")[i], nil
}

// joined joins the halves of surrogate pairs.
func joined(t text) text {
	out := t[:0]
	for _, r := range t {
		if n := len(out); n > 0 {
			if pair := utf16.DecodeRune(out[n-1], r); pair != utf8.RuneError {
				out[n-1] = pair
				continue
			}
		}
		out = append(out, r)
	}
	return out
}

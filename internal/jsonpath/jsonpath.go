// Package jsonpath reads one value of a JSON document by its path.
//
// It knows the part of RFC 9535 that names a single value:
//
//	$.detail.customer     members by name: letters, digits, _ and -
//	$['order id'].total   members by any name, in single or double quotes
//	$.Records[0].s3       elements of arrays by their index, from 0
//
// A backslash in quotes stands before a quote or another backslash. Wildcards, slices, filters and
// descendants are errors of [Parse]: they can name several values.
package jsonpath

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxLength is the largest length of a path in bytes.
const MaxLength = 512

// A Path names one value of a JSON document. The zero Path names none.
type Path struct {
	text  string
	steps []step
}

// A step goes from a value to a member of an object, or to an element of an array.
type step struct {
	name    string
	index   int
	element bool
}

// String returns the text of the path.
func (p Path) String() string { return p.text }

// IsZero reports whether the path is the zero Path.
func (p Path) IsZero() bool { return p.text == "" }

var errSyntax = errors.New("must be a path to one value, as $.detail.customer, $['order id'] or $.items[0]")

// Parse parses a path.
func Parse(text string) (Path, error) {
	rest, ok := strings.CutPrefix(text, "$")
	if !ok || len(text) > MaxLength || !utf8.ValidString(text) {
		return Path{}, errSyntax
	}
	p := Path{text: text}
	for rest != "" {
		s, after, ok := next(rest)
		if !ok {
			return Path{}, errSyntax
		}
		p.steps, rest = append(p.steps, s), after
	}
	return p, nil
}

// next parses the first step of the rest of a path.
func next(rest string) (s step, after string, ok bool) {
	if name, dotted := strings.CutPrefix(rest, "."); dotted {
		end := strings.IndexAny(name, ".[")
		if end < 0 {
			end = len(name)
		}
		return step{name: name[:end]}, name[end:], plain(name[:end])
	}
	inner, bracket := strings.CutPrefix(rest, "[")
	if !bracket || inner == "" {
		return step{}, "", false
	}
	if inner[0] == '\'' || inner[0] == '"' {
		name, after, ok := quoted(inner)
		return step{name: name}, after, ok
	}
	digits, after, closed := strings.Cut(inner, "]")
	n, err := strconv.Atoi(digits)
	return step{index: n, element: true}, after, closed && err == nil && n >= 0 && strconv.Itoa(n) == digits
}

func plain(name string) bool {
	for _, r := range name {
		if r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r < utf8.RuneSelf {
			return false
		}
	}
	return name != ""
}

// quoted parses a name in quotes, up to the bracket behind it.
func quoted(inner string) (name, after string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(inner); i++ {
		switch c := inner[i]; c {
		case inner[0]:
			after, ok = strings.CutPrefix(inner[i+1:], "]")
			return b.String(), after, ok
		case '\\':
			if i++; i == len(inner) || inner[i] != '\'' && inner[i] != '"' && inner[i] != '\\' {
				return "", "", false
			}
			b.WriteByte(inner[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// A MissingError says that a document has no text, number or boolean at a path.
type MissingError struct {
	Path   string
	Reason string
}

// Error names the path and the reason.
func (e *MissingError) Error() string { return e.Path + " " + e.Reason }

// A Document is a decoded JSON document.
type Document struct{ root any }

// Decode decodes one JSON document. The error says only that it is none.
func Decode(data []byte) (Document, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // an identity of many digits must not be rounded
	var root any
	if err := d.Decode(&root); err != nil {
		return Document{}, errors.New("is not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Document{}, errors.New("is not one JSON document")
	}
	return Document{root}, nil
}

// Text returns the value at a path: a text that is not empty, a number as it is written, or true or
// false. The error is a [*MissingError].
func (d Document) Text(p Path) (string, error) {
	value := d.root
	for _, s := range p.steps {
		var ok bool
		if value, ok = s.of(value); !ok {
			return "", &MissingError{p.text, "is missing"}
		}
	}
	switch v := value.(type) {
	case string:
		if v == "" {
			return "", &MissingError{p.text, "is empty"}
		}
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	case nil:
		return "", &MissingError{p.text, "is null"}
	case map[string]any:
		return "", &MissingError{p.text, "is an object, not a text or a number"}
	default:
		return "", &MissingError{p.text, fmt.Sprintf("is an array of %d, not a text or a number", len(v.([]any)))} //nolint:forcetypeassert // JSON has nothing else
	}
}

func (s step) of(value any) (any, bool) {
	if !s.element {
		object, _ := value.(map[string]any)
		v, ok := object[s.name]
		return v, ok
	}
	array, _ := value.([]any)
	if s.index >= len(array) {
		return nil, false
	}
	return array[s.index], true
}

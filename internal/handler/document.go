package handler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// An InvalidError names the member of a document that is wrong, and the rule for it.
type InvalidError struct {
	Path string // such as messages[1].effects[0].to; empty for the whole document
	Rule string
}

func (e *InvalidError) Error() string {
	if e.Path == "" {
		return e.Rule
	}
	return e.Path + " " + e.Rule
}

func wrong(path, rule string, args ...any) error {
	return &InvalidError{Path: path, Rule: fmt.Sprintf(rule, args...)}
}

// space is what JSON allows between its tokens.
const space = " \t\r\n"

// A value is a part of a document and its path. The whole document is valid JSON.
type value struct {
	path string
	raw  json.RawMessage
}

// An object is a JSON object of a document.
type object struct {
	path    string
	members map[string]json.RawMessage
}

// object reads the value as an object that has no other members than these.
func (v value) object(allowed ...string) (object, error) {
	members, err := v.members()
	if err != nil {
		return object{}, err
	}
	unknown := []string(nil)
	for name := range members {
		if !slices.Contains(allowed, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return object{}, wrong(v.path, "has the unknown member %.80q; the members are %s", slices.Min(unknown), strings.Join(allowed, ", "))
	}
	return object{v.path, members}, nil
}

// members reads the value as an object that has no member twice. The names are exact: encoding/json
// alone ignores their case if it decodes into a struct.
func (v value) members() (map[string]json.RawMessage, error) {
	if len(v.raw) == 0 || v.raw[0] != '{' {
		return nil, wrong(v.path, "must be a JSON object")
	}
	items := split(v.raw)
	out := make(map[string]json.RawMessage, len(items)/2)
	for i := 0; i+1 < len(items); i += 2 {
		name, err := unquote(items[i])
		if err != nil {
			return nil, wrong(v.path, "must be a JSON object")
		}
		if _, twice := out[name]; twice {
			return nil, wrong(v.path, "has the member %.80q twice", name)
		}
		out[name] = items[i+1]
	}
	return out, nil
}

// split returns the elements of a valid JSON list, or the names and values of a valid JSON object in
// turn. They share memory with it.
func split(raw json.RawMessage) (items []json.RawMessage) {
	depth, begin := 0, 1
	add := func(end int) {
		if item := bytes.Trim(raw[begin:end], space); len(item) > 0 {
			items = append(items, item)
		}
		begin = end + 1
	}
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = endOfString(raw, i)
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				add(i)
				return items
			}
		case ',', ':':
			if depth == 1 {
				add(i)
			}
		}
	}
	return items
}

// endOfString returns the index of the quote that ends the string that begins at i.
func endOfString(raw json.RawMessage, i int) int {
	for i++; i < len(raw) && raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i
}

// unquote decodes a valid JSON string.
func unquote(raw json.RawMessage) (text string, err error) {
	if !bytes.ContainsRune(raw, '\\') {
		return string(raw[1 : len(raw)-1]), nil
	}
	err = json.Unmarshal(raw, &text)
	return text, err
}

// has reports whether the object has a member, null or not.
func (o object) has(name string) bool { _, ok := o.members[name]; return ok }

// value returns a member.
func (o object) value(name string) value {
	path := name
	if o.path != "" {
		path = o.path + "." + name
	}
	return value{path, o.members[name]}
}

// text returns a member that is a string, or "" if it is missing.
func (o object) text(name string) (string, error) {
	if !o.has(name) {
		return "", nil
	}
	return o.value(name).text()
}

// text reads the value as a string. encoding/json replaces one half of a surrogate pair, which
// would change names silently; that is an error here.
func (v value) text() (string, error) {
	if len(v.raw) == 0 || v.raw[0] != '"' {
		return "", wrong(v.path, "must be a string")
	}
	text, err := unquote(v.raw)
	if err != nil {
		return "", wrong(v.path, "must be a string")
	}
	if strings.ContainsRune(text, utf8.RuneError) && replaced(v.raw) {
		return "", wrong(v.path, "must not have one half of a surrogate pair")
	}
	return text, nil
}

// replaced reports whether a JSON string in UTF-8 is decoded with a replacement character that is
// not written in it, as itself or as its escape.
func replaced(raw []byte) bool {
	for _, written := range []string{`\\`, `\ufffd`, `\ufffD`, `\uFFFD`, "\ufffd"} {
		raw = bytes.ReplaceAll(raw, []byte(written), nil)
	}
	var rest string
	return json.Unmarshal(raw, &rest) != nil || strings.ContainsRune(rest, utf8.RuneError)
}

// list returns the elements of a member that is a list, or none if it is missing.
func (o object) list(name string) ([]value, error) {
	if !o.has(name) {
		return nil, nil
	}
	v := o.value(name)
	if v.raw[0] != '[' {
		return nil, wrong(v.path, "must be a list")
	}
	items := split(v.raw)
	out := make([]value, len(items))
	for i, raw := range items {
		out[i] = value{v.path + "[" + strconv.Itoa(i) + "]", raw}
	}
	return out, nil
}

// whole returns a document as one valid JSON value without anything after it.
func whole(data []byte) (value, error) {
	switch {
	case !utf8.Valid(data):
		return value{}, wrong("", "must be UTF-8 text")
	case !json.Valid(data):
		return value{}, invalid(data)
	}
	return value{"", bytes.Trim(data, space)}, nil
}

// invalid returns the error for a document that is not valid JSON.
func invalid(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	var raw json.RawMessage
	err := d.Decode(&raw)
	switch _, more := d.Token(); {
	case errors.Is(err, io.EOF):
		return wrong("", "is empty: it must be a JSON object")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return wrong("", "ends in the middle of the JSON")
	case err != nil:
		return wrong("", "is not JSON: %s", err)
	case !errors.Is(more, io.EOF):
		return wrong("", "has text after the JSON object")
	}
	return wrong("", "is not JSON")
}

package handler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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

// A value is a part of a document and its path.
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
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(allowed, name) {
			return object{}, wrong(v.path, "has the unknown member %.80q; the members are %s", name, strings.Join(allowed, ", "))
		}
	}
	return object{v.path, members}, nil
}

// members reads the value as an object that has no member twice. The names are exact: encoding/json
// alone ignores their case if it decodes into a struct.
func (v value) members() (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(v.raw))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, wrong(v.path, "must be a JSON object")
	}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		var raw json.RawMessage
		if err != nil || !ok || d.Decode(&raw) != nil {
			return nil, wrong(v.path, "must be a JSON object")
		}
		if _, twice := out[name]; twice {
			return nil, wrong(v.path, "has the member %.80q twice", name)
		}
		out[name] = raw
	}
	return out, nil
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
	var text string
	if len(v.raw) == 0 || v.raw[0] != '"' || json.Unmarshal(v.raw, &text) != nil {
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
	var items []json.RawMessage
	v := o.value(name)
	if v.raw[0] != '[' || json.Unmarshal(v.raw, &items) != nil {
		return nil, wrong(v.path, "must be a list")
	}
	out := make([]value, len(items))
	for i, raw := range items {
		out[i] = value{v.path + "[" + strconv.Itoa(i) + "]", raw}
	}
	return out, nil
}

// whole returns a document as one JSON value without anything after it.
func whole(data []byte) (value, error) {
	if !utf8.Valid(data) {
		return value{}, wrong("", "must be UTF-8 text")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	var raw json.RawMessage
	err := d.Decode(&raw)
	switch _, more := d.Token(); {
	case errors.Is(err, io.EOF):
		return value{}, wrong("", "is empty: it must be a JSON object")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return value{}, wrong("", "ends in the middle of the JSON")
	case err != nil:
		return value{}, wrong("", "is not JSON: %s", err)
	case !errors.Is(more, io.EOF):
		return value{}, wrong("", "has text after the JSON object")
	}
	return value{"", raw}, nil
}

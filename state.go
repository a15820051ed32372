package once

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/effectively-once/once/internal/record"
)

// A stored is the state of a group as a handler reads it.
type stored struct {
	raw     json.RawMessage
	unknown bool // raw has members that the type does not have
	zero    bool // and those that it has make its zero value
}

// decodeState decodes a stored state. If it has an unknown member or does not fit the type, upgrade
// gets it, unless it is nil. The error wraps [record.ErrUnreadable].
func decodeState[S any](raw []byte, upgrade func(json.RawMessage) (json.RawMessage, error)) (state S, s stored, err error) {
	if len(raw) == 0 {
		return state, s, nil
	}
	state, s, err = fit[S](raw)
	if (err != nil || s.unknown) && upgrade != nil {
		var upgraded json.RawMessage
		if upgraded, err = upgrade(bytes.Clone(raw)); err == nil {
			state, s, err = fit[S](upgraded)
		}
	}
	if err != nil {
		return state, s, fmt.Errorf("%w as %s: %w", record.ErrUnreadable, reflect.TypeFor[S](), err)
	}
	return state, s, nil
}

// fit decodes a state into its type. It returns an error if the state has a member that the type
// does not have, in a place where [carry] could not keep it.
func fit[S any](raw []byte) (state S, s stored, err error) {
	err = strictly(raw, &state)
	if err == nil || !json.Valid(raw) {
		return state, s, err
	}
	var lenient S // the strict decoder has filled a part of the other one
	if err := json.Unmarshal(raw, &lenient); err != nil {
		return lenient, s, err
	}
	if _, err = carry(reflect.TypeFor[S](), raw, raw, 0); err != nil {
		return lenient, s, err
	}
	zero, err := encodeState(lenient, s)
	return lenient, stored{raw: raw, unknown: true, zero: zero == nil}, err
}

func strictly(raw []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if d.More() {
		return errors.New("data after the state")
	}
	return nil
}

// encodeState returns nil for a zero state, unless it was zero before beside members that the type
// does not have: the group then has none. Otherwise those members are kept.
func encodeState[S any](state S, before stored) ([]byte, error) {
	encoded, err := json.Marshal(state)
	var zero S
	if none, wrong := json.Marshal(zero); wrong == nil && bytes.Equal(none, encoded) && !before.zero {
		return nil, err
	}
	if err != nil || !before.unknown {
		return encoded, err
	}
	return carry(reflect.TypeFor[S](), before.raw, encoded, 0)
}

// maxCarry is how deep carry descends into objects.
const maxCarry = 64

// carry returns the JSON text next with those members of old that the type does not have, in
// objects that are structs of the type and in both texts at the same path. Elements of arrays have
// no path that stays: an unknown member in one of them, or below maxCarry, is an error. A type that
// decodes or encodes itself decides alone what it keeps.
func carry(t reflect.Type, old, next json.RawMessage, depth int) (json.RawMessage, error) {
	for t.Kind() == reflect.Pointer && !opaque(t) {
		t = t.Elem()
	}
	switch {
	case opaque(t):
		return next, nil
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array, depth == maxCarry:
		return next, strictly(old, reflect.New(t).Interface())
	case t.Kind() != reflect.Struct && t.Kind() != reflect.Map, !object(old), !object(next):
		return next, nil
	}
	var was, is map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(old, &was), json.Unmarshal(next, &is)); err != nil {
		return nil, err
	}
	for name, value := range was {
		to, member := memberOf(t, name)
		if member == nil {
			is[name] = value
			continue
		}
		if _, kept := is[to]; !kept {
			continue
		}
		var err error
		if is[to], err = carry(member, value, is[to], depth+1); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return json.Marshal(is)
}

func object(raw json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }

// opaque reports whether a type decodes or encodes itself.
func opaque(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[json.Marshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// memberOf returns the name and the type of the field that package encoding/json decodes a member
// of a struct into, no type if there is none; of a map, the member and the type of its values.
func memberOf(t reflect.Type, member string) (name string, field reflect.Type) {
	if t.Kind() == reflect.Map {
		return member, t.Elem()
	}
	probe, _ := json.Marshal(map[string]any{member: nil}) // a text has always a form
	if err := strictly(probe, reflect.New(t).Interface()); err != nil && strings.HasPrefix(err.Error(), "json: unknown field ") {
		return "", nil
	}
	exact, depth := false, 0
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("json") == "-" || tag == "" && f.Anonymous || !f.IsExported() || named(t, f.Index) {
			continue
		}
		if tag == "" {
			tag = f.Name
		}
		same := tag == member
		if (same || strings.EqualFold(tag, member)) && (field == nil || same && !exact || same == exact && len(f.Index) < depth) {
			name, field, exact, depth = tag, f.Type, same, len(f.Index)
		}
	}
	if field == nil { // it is in no field, but known: decoded by an embedded type that is no struct
		return member, reflect.TypeFor[json.RawMessage]()
	}
	return name, field
}

// named reports whether a field is in an embedded struct that has a name of its own in JSON.
func named(t reflect.Type, index []int) bool {
	for i := 1; i < len(index); i++ {
		if tag, _, _ := strings.Cut(t.FieldByIndex(index[:i]).Tag.Get("json"), ","); tag != "" {
			return true
		}
	}
	return false
}

package once

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/record"
)

// decodeState decodes a stored state. If it has an unknown member or does not fit the type, upgrade
// gets it, unless it is nil. It also returns the text of the state if it has unknown members, and
// otherwise nil. The error wraps [record.ErrUnreadable].
func decodeState[S any](raw []byte, upgrade func(json.RawMessage) (json.RawMessage, error)) (state S, unknown json.RawMessage, err error) {
	if len(raw) == 0 {
		return state, nil, nil
	}
	state, unknown, err = fit[S](raw)
	if (err != nil || unknown != nil) && upgrade != nil {
		var upgraded json.RawMessage
		if upgraded, err = upgrade(bytes.Clone(raw)); err == nil {
			state, unknown, err = fit[S](upgraded)
		}
	}
	if err != nil {
		return state, nil, fmt.Errorf("%w as %s: %w", record.ErrUnreadable, reflect.TypeFor[S](), err)
	}
	return state, unknown, nil
}

// fit decodes a state into its type. It returns the text if the state has unknown members, and an
// error if [carry] could not keep one of them.
func fit[S any](raw []byte) (state S, unknown json.RawMessage, err error) {
	err = strictly(raw, &state)
	if err == nil || !json.Valid(raw) {
		return state, nil, err
	}
	var lenient S // the strict decoder has filled a part of the other one
	if err := json.Unmarshal(raw, &lenient); err != nil {
		return lenient, nil, err
	}
	_, err = encodeState(lenient, raw)
	return lenient, raw, err
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

// encodeState encodes a state, with those unknown members of the text before it that can be kept.
// It returns nil for a zero state without any.
func encodeState[S any](state S, unknown json.RawMessage) ([]byte, error) {
	encoded, err := json.Marshal(state)
	if err != nil {
		return nil, err
	}
	if unknown != nil {
		kept, err := carry(reflect.TypeFor[S](), unknown, encoded, 0)
		if err != nil || strictly(kept, new(S)) != nil {
			return kept, err
		}
	}
	var zero S
	if none, err := json.Marshal(zero); err == nil && bytes.Equal(none, encoded) {
		return nil, nil
	}
	return encoded, nil
}

// maxCarry is how deep carry descends into objects.
const maxCarry = 64

// carry returns the JSON text next with those members of old that the type does not have, in
// objects that are structs of the type and in both texts at the same path. Elements of arrays have
// no path that stays: an unknown member in one of them, below maxCarry, or in a type that encodes
// itself is an error. A type that decodes itself decides alone what it keeps.
func carry(t reflect.Type, old, next json.RawMessage, depth int) (json.RawMessage, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case opaque(t), t.Kind() == reflect.Slice, t.Kind() == reflect.Array, depth == maxCarry:
		return next, strictly(old, reflect.New(reflect.PointerTo(t)).Interface()) // a pointer may be null
	case t.Kind() != reflect.Struct && t.Kind() != reflect.Map, !object(old), !object(next):
		return next, nil
	}
	var was, is map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(old, &was), json.Unmarshal(next, &is)); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(was)) { // two may be of one field
		value := was[name]
		to, member := memberOf(t, name)
		if member == nil {
			is[name] = value
			continue
		}
		into, present := is[to]
		if !present && (t.Kind() == reflect.Map || member.Kind() == reflect.Pointer || member.Kind() == reflect.Map) {
			continue // deleted
		}
		if !present { // a zero value that the tag omits
			into = json.RawMessage("{}")
		}
		kept, err := carry(member, value, into, depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if present || string(kept) != "{}" {
			is[to] = kept
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

// A hidden is the type of a member that a struct decodes into a field that memberOf did not find.
type hidden struct{}

func (*hidden) UnmarshalJSON(raw []byte) error {
	if raw[0] == '{' || raw[0] == '[' {
		return errors.New("its field is not known")
	}
	return nil
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
	name, field = member, reflect.TypeFor[hidden]()
	exact, depth := false, math.MaxInt
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		embedded := f.Anonymous && (f.Type.Kind() == reflect.Struct || f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct)
		if f.Tag.Get("json") == "-" || tag == "" && embedded || !f.IsExported() && !embedded || named(t, f.Index) {
			continue
		}
		tag = cmp.Or(tag, f.Name)
		same := tag == member
		if (same || strings.EqualFold(tag, member)) && (same && !exact || same == exact && len(f.Index) < depth) {
			name, field, exact, depth = tag, f.Type, same, len(f.Index)
		}
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

package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// Limits of a record in CBOR.
const (
	maxDepth    = 64 // maps and arrays within each other
	maxElements = 1 << 17
	maxPairs    = 1 << 14
)

// modes returns the modes in which a sequence is cut into records, and in which a record is
// decoded. A record beyond a limit of the second mode fails alone.
func modes() (cut, decode cbor.DecMode, err error) {
	cut, err = cbor.DecOptions{MaxNestedLevels: math.MaxUint16, MaxArrayElements: math.MaxInt32, MaxMapPairs: math.MaxInt32}.DecMode()
	if err != nil {
		return nil, nil, err
	}
	decode, err = cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, TagsMd: cbor.TagsForbidden, MaxNestedLevels: maxDepth, MaxArrayElements: maxElements, MaxMapPairs: maxPairs,
		DefaultMapType: reflect.TypeFor[map[string]any](), NaN: cbor.NaNDecodeForbidden, Inf: cbor.InfDecodeForbidden,
	}.DecMode()
	return cut, decode, err
}

// readCBOR reads a CBOR sequence. If an item is not well-formed, its end, and with it the next
// record, can't be found.
func readCBOR(data []byte) ([]Record, error) {
	cut, decode, err := modes()
	if err != nil {
		return nil, fmt.Errorf("make CBOR decoder: %w", err)
	}
	var records []Record
	for n := 1; len(data) > 0; n++ {
		if n > MaxRecords {
			return nil, tooMany()
		}
		var item cbor.RawMessage
		rest, err := cut.UnmarshalFirst(data, &item)
		if err != nil {
			return nil, problem.New(problem.MalformedRequest, fmt.Sprintf("Record %d is not well-formed CBOR. Nothing of the batch was accepted.", n))
		}
		r := Record{Line: n}
		r.Err = readItem(decode, item, &r)
		records, data = append(records, r), rest
	}
	return records, nil
}

// readItem decodes a record: a map with the names of the fields in JSON.
func readItem(decode cbor.DecMode, item []byte, r *Record) *problem.Problem {
	var raw map[string]cbor.RawMessage
	if err := decode.Unmarshal(item, &raw); err != nil || raw == nil {
		return malformed(notMap(err))
	}
	var f fields
	targets := map[string]any{
		"key": &f.Key, "group": &f.Group, "source": &f.Source, "epoch": &f.Epoch, "sequence": &f.Sequence,
		"depends_on": &f.DependsOn, "parents": &f.Parents, "time": &f.Time, "via": &f.Via, "void": &f.Void, "end": &f.End, "delay": &f.Delay, "not_before": &f.NotBefore, "content_type": &f.ContentType, "headers": &f.Headers,
	}
	names := make([]string, 0, len(raw))
	for name := range raw {
		names = append(names, name)
	}
	slices.Sort(names) // so that the same record has the same error
	for _, name := range names {
		to, known := targets[name]
		switch {
		case name == "body":
		case !known:
			return malformed(fmt.Sprintf("unknown field %.80q.", name))
		case decode.Unmarshal(raw[name], to) != nil:
			return malformed(name + " has a value of the wrong type.")
		}
	}
	if p := f.set(r); p != nil {
		return p
	}
	r.Message.ContentType = f.ContentType
	return setItem(decode, raw["body"], &r.Message)
}

// notMap returns what is wrong with a record that could not be decoded.
func notMap(err error) string {
	if twice, ok := errors.AsType[*cbor.DupMapKeyError](err); ok {
		return fmt.Sprintf("the key %.80q is in a map twice.", fmt.Sprint(twice.Key))
	}
	if _, ok := errors.AsType[*cbor.MaxNestedLevelError](err); ok {
		return fmt.Sprintf("maps and arrays are nested deeper than %d levels.", maxDepth)
	}
	return "a record must be a CBOR map with text keys, without tags, not-a-number and infinities, and within the limits of its size."
}

// setItem sets the body of m, and its type. A byte string is the body itself; any other value means
// what it does in JSON.
func setItem(decode cbor.DecMode, raw cbor.RawMessage, m *record.Message) *problem.Problem {
	asJSON, ok := record.MediaType(m.ContentType)
	if !ok && m.ContentType != "" {
		return notMedia()
	}
	if raw == nil {
		return nil
	}
	var value any
	if err := decode.Unmarshal(raw, &value); err != nil {
		return malformed("body " + notMap(err))
	}
	switch value := value.(type) {
	case []byte:
		m.Body = value
		return nil
	case string:
		if m.ContentType != "" && !asJSON {
			m.Body = []byte(value)
			return nil
		}
	}
	if m.ContentType == "" {
		m.ContentType, asJSON = jsonType, true
	}
	if !asJSON {
		return malformed(fmt.Sprintf("body must be a text or a byte string if content_type is %.64s.", m.ContentType))
	}
	body, err := toJSON(value)
	if err != nil {
		return malformed("body has a value that JSON can't hold.")
	}
	m.Body = body
	return nil
}

// toJSON writes a value as JSON. Names are sorted, so that the same value is the same body.
func toJSON(value any) ([]byte, error) {
	if !holdable(value) {
		return nil, errors.New("JSON has no such value")
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'}), err
}

// holdable reports whether a decoded value has only what JSON has too.
func holdable(value any) bool {
	switch value := value.(type) {
	case nil, bool, string, uint64, int64, float64, float32:
		return true
	case []any:
		return !slices.ContainsFunc(value, func(v any) bool { return !holdable(v) })
	case map[string]any:
		for _, v := range value {
			if !holdable(v) {
				return false
			}
		}
		return true
	}
	return false
}

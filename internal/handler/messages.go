package handler

import (
	"encoding/json"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/record"
)

// DecodeMessages reads the member "effects" of the commit of a session: the effects of an answer,
// without timers, because a session is no group. Their delays count from now. The error is an
// [*InvalidError].
//
// It takes more than [DecodeAnswer] does, because sessions always have: a member other than body
// that is null, and a group that is empty, count as missing; and a body that is JSON but not a
// string may have a content type that is not JSON.
func DecodeMessages(list json.RawMessage, now time.Time) ([]record.Effect, error) {
	if len(list) == 0 || string(list) == "null" {
		return nil, nil
	}
	if !utf8.Valid(list) {
		return nil, wrong("effects", "must be UTF-8 text")
	}
	items, err := object{members: map[string]json.RawMessage{"effects": list}}.list("effects")
	if err != nil {
		return nil, err
	}
	a := record.Attempt{Now: now}
	for _, v := range items {
		e, err := v.message()
		if err != nil {
			return nil, err
		}
		f := record.Effect{To: []string{e.To}, Group: e.Group, ContentType: e.ContentType, Headers: e.Headers, Body: e.Body}
		if err := a.SendAfter(f, e.After); err != nil {
			return nil, wrong(v.path, "is not valid: %v", err)
		}
	}
	return a.Effects(), nil
}

// message reads an effect that is a message to a destination.
func (v value) message() (e Effect, err error) {
	all, err := v.members()
	if err != nil {
		return e, err
	}
	if timers := (object{members: all}); timers.has("timer") || timers.has("cancel") {
		return e, wrong(v.path, "can't set or cancel a timer: only the handler of a stream has timers. A message with to may have after")
	}
	o, err := v.object(append([]string{"to", "group", "after"}, contentMembers()...)...)
	if err != nil {
		return e, err
	}
	maps.DeleteFunc(o.members, func(name string, raw json.RawMessage) bool {
		return name != "body" && string(raw) == "null" || name == "group" && string(raw) == `""`
	})
	if !o.has("to") {
		return e, wrong(v.path, "must have to, the name of a destination")
	}
	if err := o.quoteBody(); err != nil {
		return e, err
	}
	return o.effect()
}

// quoteBody makes a string of a body that is another JSON value, if the content type is not JSON.
func (o object) quoteBody() error {
	contentType, err := o.text("content_type")
	if raw := o.members["body"]; err == nil && contentType != "" && !record.IsJSON(contentType) && len(raw) > 0 && raw[0] != '"' {
		o.members["body"], err = marshal(string(raw))
	}
	return err
}

package handler_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/handler"
)

func TestTheEffectsOfASessionAreThoseOfAnAnswer(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for list, want := range map[string]struct {
		contentType, body string
		due               time.Time
	}{
		`{"to":"mail","group":"g","body":{"a": 1}}`:                        {"application/json", `{"a":1}`, time.Time{}},
		`{"to":"mail","group":"g","after":"15m","body":null}`:              {"application/json", "null", now.Add(15 * time.Minute)},
		`{"to":"mail","group":"g","content_type":"text/plain","body":"h"}`: {"text/plain", "h", time.Time{}},
		`{"to":"mail","group":"g","body_base64":"AAE="}`:                   {"", "\x00\x01", time.Time{}},
		// what only sessions take
		`{"to":"mail","group":"g","after":null,"headers":null,"content_type":null,"body":1,"body_base64":null}`: {"application/json", "1", time.Time{}},
		`{"to":"mail","group":"g","content_type":"text/csv","body":[1, 2]}`:                                     {"text/csv", "[1, 2]", time.Time{}},
	} {
		effects, err := handler.DecodeMessages(json.RawMessage("["+list+"]"), now)
		if err != nil || len(effects) != 1 {
			t.Errorf("%s: got %d effects and %v, want one", list, len(effects), err)
			continue
		}
		if e := effects[0]; e.To[0] != "mail" || e.Group != "g" || e.ContentType != want.contentType || string(e.Body) != want.body || !e.NotBefore.Equal(want.due) {
			t.Errorf("%s: got %+v, want %+v to the group g of mail", list, e, want)
		}
	}
	for _, none := range []string{"", "null", "[]", `[{"to":"mail","group":""}]`} {
		effects, err := handler.DecodeMessages(json.RawMessage(none), now)
		if err != nil || len(effects) > 1 || len(effects) == 1 && effects[0].Group != "" {
			t.Errorf("%q: got %+v and %v, want no group and no error", none, effects, err)
		}
	}
}

func TestAnEffectThatNoSessionCanHaveIsAnErrorThatNamesIt(t *testing.T) {
	for list, want := range map[string]string{
		`{}`:                                     "effects must be a list",
		`[1]`:                                    "effects[0] must be a JSON object",
		`[{"body":1}]`:                           "effects[0] must have to",
		`[{"to":null}]`:                          "effects[0] must have to",
		`[{"to":"a"},{"too":"b"}]`:               `effects[1] has the unknown member "too"; the members are to, group, after, content_type`,
		`[{"timer":"t","after":"1m"}]`:           "effects[0] can't set or cancel a timer",
		`[{"cancel":"t"}]`:                       "effects[0] can't set or cancel a timer",
		`[{"to":"a","after":"1 hour"}]`:          "effects[0].after must be a duration",
		`[{"to":"a","after":"366d"}]`:            "effects[0].after must be at most 365d",
		`[{"to":"a","body":1,"body_base64":""}]`: "effects[0].body and body_base64 exclude each other",
		"[{\"to\":\"\xff\"}]":                    "effects must be UTF-8",
	} {
		if _, err := handler.DecodeMessages(json.RawMessage(list), time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", list, err, want)
		}
	}
}

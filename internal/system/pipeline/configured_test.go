package pipeline

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

const agreed = `
streams:
  plain:   {destinations: [out]}
  mixed:   {order: none, destinations: [out]}
  numbers: {admission: sequence, retention: 2h, gap: {policy: skip, after: 1m}, held: {count: 5, distance: 7}, destinations: [out]}
destinations:
  out: {file: out.jsonl}
`

func TestTheCodeMayRepeatTheConfiguration(t *testing.T) {
	handler := func(context.Context, *record.Attempt, record.Message) error { return nil }
	err := Configured(parsed(t, agreed), []system.Stream{
		{Stream: record.Stream{Name: "plain", Admission: record.ByKey, Gap: record.Gap{Policy: record.GapWait}, Bounds: record.Bounds{Count: 1000}, GroupRetention: time.Hour, Handler: handler}, Ordered: true},
		{Stream: record.Stream{
			Name: "numbers", Admission: record.BySequence, Retention: 2 * time.Hour, Gap: record.Gap{Policy: record.GapSkip, After: time.Minute},
			Bounds: record.Bounds{Count: 5, Bytes: 8 << 20, Distance: 7},
		}},
		{Stream: record.Stream{Name: "mixed", Unordered: true}},
	})
	if err != nil {
		t.Error(err)
	}
	if err := Configured(parsed(t, agreed), []system.Stream{{Stream: record.Stream{Name: "numbers", Handler: handler}}}); err != nil {
		t.Errorf("the code says nothing: %v", err)
	}
}

func TestSettingsThatDifferFromTheConfigurationAreNamed(t *testing.T) {
	for setting, d := range map[string]system.Stream{
		"declared in code only": {Stream: record.Stream{Name: "mine"}},
		"admission differs":     {Stream: record.Stream{Name: "plain", Admission: record.ByToken}},
		"order differs":         {Stream: record.Stream{Name: "plain", Unordered: true}},
		"retention differs":     {Stream: record.Stream{Name: "plain", Retention: time.Hour}},
		"gap differs":           {Stream: record.Stream{Name: "plain", Gap: record.Gap{Policy: record.GapFail, After: time.Hour}}},
		"held differs":          {Stream: record.Stream{Name: "plain", Bounds: record.Bounds{Bytes: 1}}},
	} {
		err := Configured(parsed(t, agreed), []system.Stream{d})
		if err == nil || !strings.Contains(err.Error(), setting) || !strings.Contains(err.Error(), "stream "+d.Name) || !strings.Contains(err.Error(), "read only that file") {
			t.Errorf("%s of %s: %v", setting, d.Name, err)
		}
	}
	handler := func(context.Context, *record.Attempt, record.Message) error { return nil }
	slow := []system.Stream{{Stream: record.Stream{Name: "plain", Timeout: time.Minute, Handler: handler}}}
	if err := Configured(parsed(t, agreed), slow); err == nil || !strings.Contains(err.Error(), "stream plain: a timeout of 1m0s in the code, and of 10s in once.yaml: set handlers.plain.timeout there") {
		t.Errorf("a timeout in code only: %v", err)
	}
	if err := Configured(parsed(t, agreed+"handlers: {plain: {timeout: 1m}}\n"), slow); err != nil {
		t.Errorf("the same timeout: %v", err)
	}
	err := Configured(parsed(t, agreed), []system.Stream{{Stream: record.Stream{Name: "mixed", Admission: record.ByToken}, Ordered: true}})
	if err == nil || !strings.Contains(err.Error(), "admission, order differs between the code and once.yaml") {
		t.Errorf("two settings of one stream: %v", err)
	}
}

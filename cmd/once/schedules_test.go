package main

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"
)

func TestCheckPrintsTheNextTimesOfASchedule(t *testing.T) {
	w := newWorld(t)
	if code := w.once(t.Context(), "", "check", "--config", "testdata/files/schedules.yaml"); code != exitOK {
		t.Fatalf("exit %d: %s", code, w.err.String())
	}
	want := regexp.MustCompile(`SCHEDULE +CRON +TIMEZONE +STREAM +NEXT TIMES\nnightly +0 3 \* \* \* +Europe/Berlin +reports +\S+T0[12]:00:00Z, \S+T0[12]:00:00Z, \S+T0[12]:00:00Z\n`)
	if !want.MatchString(w.out.String()) {
		t.Errorf("the output does not match %s:\n%s", want, w.out.String())
	}
	w = newWorld(t)
	if code := w.once(t.Context(), "", "check", "--config", "testdata/files/schedules.yaml", "--json"); code != exitOK {
		t.Fatalf("exit %d: %s", code, w.err.String())
	}
	var got struct {
		Schedules map[string]struct {
			Cron string
			Next []time.Time
		}
	}
	if err := json.Unmarshal(w.out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if s := got.Schedules["nightly"]; s.Cron != "0 3 * * *" || len(s.Next) != 3 || !s.Next[0].After(time.Now()) || !s.Next[1].After(s.Next[0]) {
		t.Errorf("got %+v, want three times of the schedule in order", got)
	}
}

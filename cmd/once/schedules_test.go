package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/schedule"
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

func TestSchedulesAreNewBeforeTheFirstStart(t *testing.T) {
	t.Chdir(t.TempDir())
	if code := newWorld(t).once(t.Context(), "", "schedules"); code != exitAway {
		t.Errorf("without a configuration: exit %d, want %d", code, exitAway)
	}
	text := "streams: {reports: {}}\nschedules: {nightly: {cron: '0 3 * * *', stream: reports}}\n"
	if err := os.WriteFile("once.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	if code := w.once(t.Context(), "", "schedules", "--json"); code != exitOK {
		t.Fatalf("exit %d: %s", code, w.err.String())
	}
	if !strings.Contains(w.err.String(), "there is no data folder .once") {
		t.Errorf("no warning of the missing folder: %s", w.err.String())
	}
	var list []schedule.Info
	if err := json.Unmarshal(w.out.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Schedule != "nightly" || list[0].State != schedule.StateNew || list[0].Next == nil || list[0].Last != nil {
		t.Errorf("got %+v, want nightly as new, with its next time", list)
	}
	if code := newWorld(t).once(t.Context(), "", "schedules", "--data", "nowhere"); code != exitAway {
		t.Errorf("with a folder that is missing: exit %d, want %d", code, exitAway)
	}
	if files, err := os.ReadDir("."); err != nil || len(files) != 1 {
		t.Errorf("the folder has %v, %v; want the configuration only", files, err)
	}
}

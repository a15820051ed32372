package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEveryAimIsOfSubjectsThatAreMeasured(t *testing.T) {
	known := map[string]bool{}
	for _, part := range [][]subject{engineSubjects(), logSubjects(), orderSubjects(), httpSubjects()} {
		names := map[string]bool{}
		for _, s := range part {
			if names[s.name] {
				t.Errorf("two subjects are called %q", s.name)
			}
			names[s.name], known[s.name] = true, true
		}
	}
	for _, a := range aims() {
		for _, name := range slices.Concat([]string{a.of}, a.floors, a.peers) {
			if !known[name] {
				t.Errorf("%s, %s: there is no subject %q", a.of, a.name, name)
			}
		}
	}
}

func TestAnAimIsHeldByTheMedianOfTheRounds(t *testing.T) {
	rounds := []round{
		{keyAlone: {Rate: 70}, rawPut: {Rate: 100}},
		{keyAlone: {Rate: 50}, rawPut: {Rate: 100}},
		{keyAlone: {Rate: 300}, rawPut: {Rate: 500}},
	}
	verdicts, _ := judge(rounds)
	if len(verdicts) != 1 || verdicts[0].Median != 0.6 || !verdicts[0].Held {
		t.Fatalf("%+v", verdicts)
	}
	rounds[2][keyAlone] = sample{Rate: 290}
	if verdicts, _ = judge(rounds); verdicts[0].Held {
		t.Errorf("%+v", verdicts)
	}
	var out strings.Builder
	if err := aimTable(rounds).Write(&out); err != nil || !strings.Contains(out.String(), "not held") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestACostBelowItsAimIsHeld(t *testing.T) {
	for cost, want := range map[float64]bool{99: true, 101: false} {
		r := round{toFile: {CPU: cost, Rate: 1}, rawHTTPPut: {Rate: 1}}
		verdicts, _ := judge([]round{r})
		if i := slices.IndexFunc(verdicts, func(v verdict) bool { return v.Figure == "CPU µs of the server" }); verdicts[i].Held != want {
			t.Errorf("%v µs: %+v", cost, verdicts[i])
		}
	}
}

func TestALineCountsWhenItIsComplete(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	seen := &lines{path: path}
	for _, c := range []struct {
		added string
		want  int
	}{{"", 0}, {"a\nb", 1}, {"c", 1}, {"\nd\n\n", 4}} {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(c.added); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err := seen.count(); n != c.want || err != nil {
			t.Errorf("after %q: %d lines, want %d: %v", c.added, n, c.want, err)
		}
	}
}

func TestASyncedAppendIsInTheFileWhenItReturns(t *testing.T) {
	dir := t.TempDir()
	w, err := openLog(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	done, err := w.run(t.Context(), 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "log"))
	if err != nil || done.messages == 0 || info.Size() != int64(done.messages*recordBytes) {
		t.Errorf("%d messages, %v %v", done.messages, info, err)
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}

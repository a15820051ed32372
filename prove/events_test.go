package main

import (
	"strings"
	"testing"
)

func TestAPackageThatWasNotTestedIsNotCountedAsShown(t *testing.T) {
	for name, c := range map[string]struct{ events, hidden string }{
		"its tests were skipped": {`{"Action":"output","Test":"T/a","Output":"    x_test.go:1: HOST is not set\n"}
			{"Action":"skip","Test":"T/a"}`, "it was skipped: HOST is not set"},
		"it has no conditions":          {`{"Action":"pass","Test":"T/a"}`, "its conditions were not removed"},
		"it did not end":                {`{"Action":"output","Test":"T/a","Output":"    x_test.go:1: killed a.go f: x: --- FAIL\n"}`, "it did not come to its end"},
		"nothing is hidden if it ended": {`{"Action":"output","Test":"T/a","Output":"    x_test.go:1: killed a.go f: x: --- FAIL\n"} {"Action":"pass","Test":"T/a"}`, ""},
	} {
		scores, said, err := scoresOf(strings.NewReader(c.events), "T/")
		if err != nil || said != "" || len(scores) != 1 || scores[0].hidden != c.hidden {
			t.Errorf("%s: scores %v, said %q, error %v", name, scores, said, err)
		}
	}
}

func TestAConditionThatNoTestFindsIsReported(t *testing.T) {
	scores, said, err := scoresOf(strings.NewReader(`
		{"Action":"output","Test":"T/a","Output":"    x_test.go:1: killed a.go f: x: --- FAIL\n"}
		{"Action":"output","Test":"T/a","Output":"    x_test.go:1: survives a.go f: y: saves a look\n"}
		{"Action":"output","Test":"T/a","Output":"    x_test.go:1: no test fails without a.go f: z\n"}
		{"Action":"fail","Test":"T/a"}`), "T/")
	if err != nil || len(scores) != 1 {
		t.Fatalf("scores %v, error %v", scores, err)
	}
	if s := scores[0]; s.found != 1 || s.reason != 1 || s.still != 1 || !strings.Contains(said, "a.go f: z") {
		t.Errorf("found %d, for a reason %d, without %d; said %q", s.found, s.reason, s.still, said)
	}
}

func TestASkippedHistoryIsAnError(t *testing.T) {
	all, _, err := printHistories(strings.NewReader(`
		{"Action":"output","Package":"once/internal/a","Test":"T","Output":"    x_test.go:1: 3 histories, 40 operations, 2 answers lost, 0 violations, 0 undecided\n"}
		{"Action":"skip","Package":"once/internal/b","Test":"T"}`))
	if all != 40 || err == nil || !strings.Contains(err.Error(), "b was skipped") {
		t.Errorf("%d operations, error %v", all, err)
	}
}

func TestAPackageWithoutHistoriesIsAnError(t *testing.T) {
	for what, events := range map[string]string{
		"no test matches": `{"Action":"output","Package":"once/internal/b","Output":"testing: warning: no tests to run\n"} {"Action":"pass","Package":"once/internal/b"}`,
		"no test at all":  `{"Action":"skip","Package":"once/internal/b"}`,
	} {
		_, _, err := printHistories(strings.NewReader(`
			{"Action":"output","Package":"once/internal/a","Test":"T","Output":"    x_test.go:1: 3 histories, 40 operations, 2 answers lost, 0 violations, 0 undecided\n"}
			{"Action":"pass","Package":"once/internal/a"}` + events))
		if err == nil || err.Error() != "b has no histories" {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

func TestTruncatedEventsAreAnError(t *testing.T) {
	if _, _, err := scoresOf(strings.NewReader(`{"Action":"pa`), "T/"); err == nil {
		t.Error("no error")
	}
}

package main

import (
	"os"
	"strings"
	"testing"
)

// TestMain makes the test binary the servers and the consumers too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestSessionsLoseAndDoubleNoRowAndACursorStoredLaterDoubles(t *testing.T) {
	const few = 6
	results, err := conduct(t.Context(), []string{nameOnce, nameAfter, nameJetStream}, faults(), few)
	if err != nil {
		t.Fatal(err)
	}
	doubled := map[string]int{}
	for _, r := range results {
		t.Logf("%+v", r)
		doubled[r.Peer] += r.Doubled
		if r.Lost > 0 || r.Faults != few || r.Messages == 0 {
			t.Errorf("%s: %d rows are lost after %d faults", r.Peer, r.Lost, r.Faults)
		}
	}
	if doubled[nameOnce] > 0 {
		t.Errorf("%d rows are doubled", doubled[nameOnce])
	}
	if doubled[nameAfter] == 0 || doubled[nameJetStream] == 0 {
		t.Errorf("the others double nothing: the faults have not reached them: %v", doubled)
	}
}

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestATableHasOnlyPeersOfOneOrder(t *testing.T) {
	var results []result
	for _, name := range names() {
		for _, f := range faults() {
			results = append(results, result{Peer: name, Fault: f, Faults: 100})
		}
	}
	var out strings.Builder
	if err := report(&out, results); err != nil {
		t.Fatal(err)
	}
	var got [][]string // the first cells of each table
	for text := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n\n") {
		var first []string
		for line := range strings.Lines(text) {
			cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), "|")
			first = append(first, strings.TrimSpace(cell))
		}
		got = append(got, append(first[:1], first[2:]...))
	}
	want := [][]string{
		{"rows first, then position or acknowledgement: rows lost / doubled per 100 faults", "`once`: session", "JetStream: pull consumer, double acknowledgement", "Watermill: SQL subscriber", "ElasticMQ, in place of SQS: visibility timeout"},
		{"position in the transaction of the rows: rows lost / doubled per 100 faults", "`once`: session", "Watermill: SQL subscriber"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAMessageCostsAtMostItsTarget counts the units and requests of the engine's rows, through the
// proxy of the benchmark.
func TestAMessageCostsAtMostItsTarget(t *testing.T) {
	endpoint := os.Getenv(endpointVariable)
	if endpoint == "" {
		t.Skipf("%s is not set: localstack/dynamodb-local.sh up starts a DynamoDB to count on", endpointVariable)
	}
	binary := filepath.Join(t.TempDir(), "once")
	if err := buildOurs(t.Context(), "../peers/once", binary); err != nil {
		t.Fatal(err)
	}
	m, environment, stop, err := counting(t.Context(), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range ours(binary) {
		f, err := measure(t.Context(), c, m, environment, load{counted: 40, warm: 20})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		t.Logf("%s: %.3f requests, %.3f write units, %.3f read units", c.name, f.requests, f.writes, f.reads)
		if c.aim.requests != nil && above(f.requests, *c.aim.requests) || c.aim.writes != nil && above(f.writes, *c.aim.writes) {
			t.Errorf("%s: %.3f requests and %.3f write units are more than is aimed at", c.name, f.requests, f.writes)
		}
	}
}

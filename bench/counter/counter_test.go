package main

import (
	"os"
	"strings"
	"testing"
)

// TestMain makes the test binary the servers and the worker too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestEachRequestIsCountedOnceWhateverIsKilled(t *testing.T) {
	if os.Getenv(variable) == "" {
		t.Skipf("%s is not set: localstack/postgres.sh run starts the database", variable)
	}
	const kills = 8
	r, err := try(t.Context(), nameOnce, 200, kills)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	killed := 0
	for _, n := range r.Killed {
		killed += n
	}
	if r.Counted != r.Requests || killed != kills {
		t.Errorf("%d requests were counted as %d, with %d kills", r.Requests, r.Counted, killed)
	}
}

package eventually

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A failing is a test that records its failure, and ends its goroutine as a test does.
type failing struct {
	testing.TB
	failed bool
}

func (*failing) Helper() {}

func (f *failing) Fatalf(string, ...any) {
	f.failed = true
	panic(f)
}

func TestACheckIsRepeatedUntilItSucceedsOrTwoMinutesHavePassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, f := 0, &failing{}
		Succeeds(f, func() error {
			if calls++; calls < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		if calls != 3 || f.failed {
			t.Errorf("%d calls, failed: %v", calls, f.failed)
		}
		began := time.Now()
		func() {
			defer func() { _ = recover() }()
			Succeeds(f, func() error { return errors.New("never") })
		}()
		if took := time.Since(began); !f.failed || took != 2*time.Minute {
			t.Errorf("failed: %v, after %v", f.failed, took)
		}
	})
}

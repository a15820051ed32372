//go:build stress

package watermill_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
)

// The suite ten times at once, on one server.
func TestSuitePassesUnderStress(t *testing.T) {
	f := construct(serve(t, logs), 10)
	tests.TestPubSubStressTest(t, features, inGroup(f), f)
}

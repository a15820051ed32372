package embedded

import (
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/queue"
)

func TestABatchOfLargeMessagesIsFollowedByOneOfFewer(t *testing.T) {
	batch := func(sizes ...int) (out []queue.Delivery) {
		for _, size := range sizes {
			out = append(out, queue.Delivery{Message: queue.Message{Body: strings.Repeat("x", size)}})
		}
		return out
	}
	for want, sizes := range map[int][]int{
		pollBatch: {1}, 64: {256 << 10, 256 << 10}, 11: {1400 << 10}, 23: {1400 << 10, 1000}, 1: {pollBytes + 1},
	} {
		if got := nextBatch(batch(sizes...)); got != want {
			t.Errorf("after %v: %d, want %d", sizes, got, want)
		}
	}
}

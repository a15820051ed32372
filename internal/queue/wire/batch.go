package wire

import "github.com/effectively-once/once/internal/queue"

// Behind reports for each message of a batch whether an earlier one of its message group has
// failed. Such a message must be redelivered too, or it would overtake the failed one. Only
// first-in-first-out queues keep that order; in a standard queue a message group is for fairness,
// and the result is false.
func Behind(batch []queue.Delivery, failed func(i int) bool) []bool {
	behind := make([]bool, len(batch))
	stopped := map[[2]string]bool{}
	for i := range batch {
		if !queue.FIFO(batch[i].Queue) {
			continue
		}
		group := [2]string{batch[i].Queue, batch[i].Group}
		behind[i] = stopped[group]
		if behind[i] || failed(i) {
			stopped[group] = true
		}
	}
	return behind
}

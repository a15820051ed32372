package function

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/system/function/tasks"
)

// FuzzEvent passes any event to a function behind a queue: the result is a batch of messages, an
// unknown task or an error, and never two of them. Known tasks need a system, and are left out.
func FuzzEvent(f *testing.F) {
	for _, event := range []string{
		`{"Records":[{"messageId":"1","body":"x","messageAttributes":{"a":{"stringValue":"b","dataType":"String"}}}]}`, `{"once":"erase"}`, `{"once":"","Records":[]}`,
		`{"once":1}`, `{"once":"redrive","max":"all"}`, `{"once":"redrive","until":"soon"}`, `[]`, `null`, ``, `{"Records":[null]}`, `{"ONCE":"x"}`,
	} {
		f.Add([]byte(event))
	}
	f.Fuzz(func(t *testing.T, event []byte) {
		var task tasks.Task
		read := json.Unmarshal(event, &task) == nil && task.Once != ""
		if read && (task.Once == tasks.Sweep || task.Once == tasks.SweepAll || task.Once == tasks.Redrive) {
			return
		}
		batches := 0
		handler := (&System{}).orTask(func(_ context.Context, batch []queue.Delivery) []queue.Disposition {
			batches++
			return make([]queue.Disposition, len(batch))
		})
		answer, err := handler(t.Context(), event)
		if read && (err == nil || batches > 0) {
			t.Fatalf("task %q: %v", task.Once, answer)
		}
		if (err == nil) != (batches == 1) {
			t.Fatalf("%d batches, %v", batches, err)
		}
	})
}

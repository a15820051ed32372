package deployed

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/effectively-once/once/internal/aws/call"
	"github.com/effectively-once/once/internal/system/function/tasks"
)

// do has a function do a task, and decodes its answer. Callers may repeat any task, as the SDK does
// after a lost answer.
func (s *Stack) do(ctx context.Context, function string, task tasks.Task, told any) error {
	payload, err := json.Marshal(task)
	if err != nil {
		return fmt.Errorf("encode task: %w", err)
	}
	out, err := s.lambda.Invoke(ctx, function, payload)
	if err != nil {
		return fmt.Errorf("invoke function %s: %w", function, explain(err))
	}
	if out.Header.Get(call.FunctionError) != "" {
		return fmt.Errorf("function %s failed: see its log", function)
	}
	if err := json.Unmarshal(out.Body, told); err != nil {
		return fmt.Errorf("read answer of function %s: %w", function, err)
	}
	return nil
}

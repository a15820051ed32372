package deployed

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/aws/call"
)

// A mapping delivers the messages of a queue to a function.
type mapping struct {
	queue    string // by name
	function string
	timeout  time.Duration // of the function
	state    string
	partial  bool // the function may name the messages that failed
}

// mappings lists the event source mappings of the functions.
func (s *Stack) mappings(ctx context.Context, functions []function) ([]mapping, error) {
	var out []mapping
	for _, f := range functions {
		query := url.Values{"FunctionName": {f.name}}
		for more := true; more; more = query.Get("Marker") != "" {
			var page struct {
				NextMarker          string
				EventSourceMappings []struct {
					EventSourceArn, State string
					FunctionResponseTypes []string
				}
			}
			if err := s.lambda.Get(ctx, "ListEventSourceMappings", call.MappingsPath, query, &page); err != nil {
				return nil, fmt.Errorf("list event source mappings of function %s: %w", f.name, explain(err))
			}
			query.Set("Marker", page.NextMarker)
			for _, m := range page.EventSourceMappings {
				out = append(out, mapping{
					queue: lastOf(m.EventSourceArn), function: f.name, timeout: f.timeout, state: m.State,
					partial: slices.Contains(m.FunctionResponseTypes, "ReportBatchItemFailures"),
				})
			}
		}
	}
	return out, nil
}

// checkMappings adds findings on whether every queue reaches a function, and returns, by the
// queue's name, the longest timeout of a function behind it.
func (s *Stack) checkMappings(ctx context.Context, r *report, functions []function) map[string]time.Duration {
	timeouts := map[string]time.Duration{}
	all, err := s.mappings(ctx, functions)
	if err != nil {
		r.unknown(s.Name, "event source mappings", err)
		return timeouts
	}
	for _, m := range all {
		timeouts[m.queue] = max(timeouts[m.queue], m.timeout)
	}
	for _, p := range s.Outputs.work() {
		checkDelivery(r, path.Base(p.url), all)
	}
	return timeouts
}

func checkDelivery(r *report, queue string, all []mapping) {
	const check = "delivery"
	i := slices.IndexFunc(all, func(m mapping) bool { return m.queue == queue })
	if i < 0 {
		r.expect(false, queue, check, "no function of the stack gets its messages")
		return
	}
	m := all[i]
	r.expect(strings.HasPrefix(m.state, "Enabl"), queue, check, "to function %s is %s: its messages wait", m.function, m.state)
	r.expect(m.partial, queue, "partial batches", "function %s can't report single messages: one that fails would bring back its whole batch", m.function)
}

// lastOf returns the resource of an ARN.
func lastOf(arn string) string { return arn[strings.LastIndexByte(arn, ':')+1:] }

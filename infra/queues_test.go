package infra

import (
	"regexp"
	"strings"
	"testing"
)

// queues are the working queues and their dead-letter queues: id, id of the dead-letter queue, FIFO
// or not, receives.
var queues = []struct {
	id, dead string
	fifo     bool
	receives int
}{
	{"QueuesIngress", "QueuesIngressDead", false, 1000},
	{"QueuesIngressFifo", "QueuesIngressFifoDead", true, 1000},
	{"QueuesPublish", "QueuesPublishDead", false, 1000},
	{"QueuesPublishFifo", "QueuesPublishFifoDead", true, 1000},
}

// queue returns the queue whose id is name followed by the CDK's hash.
func (x *template) queue(t *testing.T, name string) (string, resource) {
	t.Helper()
	for id, r := range x.Resources {
		if r.Type == queueType && regexp.MustCompile(name+"[0-9A-F]{8}$").MatchString(id) {
			return id, r
		}
	}
	t.Fatalf("no queue %s", name)
	return "", resource{}
}

func TestQueuesHaveDeadLetterQueuesOfTheirKindThatKeepFourteenDays(t *testing.T) {
	x := synth(t)
	x.all(t, queueType, 2*len(queues))
	for _, q := range queues {
		id, work := x.queue(t, q.id)
		deadID, dead := x.queue(t, q.dead)
		work.expect(t, id, map[string]any{
			"RedrivePolicy.deadLetterTargetArn": arnOf(deadID), "RedrivePolicy.maxReceiveCount": q.receives, "MessageRetentionPeriod": 14 * 24 * 60 * 60,
			"SqsManagedSseEnabled": true, "MaximumMessageSize": 1 << 20,
		})
		dead.expect(t, deadID, map[string]any{"MessageRetentionPeriod": 14 * 24 * 60 * 60, "SqsManagedSseEnabled": true, "RedrivePolicy": nil, "MaximumMessageSize": 1 << 20})
		for id, r := range map[string]resource{id: work, deadID: dead} {
			if got := at(r.Properties, "FifoQueue") == true; got != q.fifo {
				t.Errorf("%s: first-in-first-out is %v", id, got)
			}
			if at(r.Properties, "ContentBasedDeduplication") != nil {
				t.Errorf("%s drops a second trigger of the same group", id)
			}
		}
	}
}

func TestAQueueHidesAMessageForSixTimesTheTimeoutOfItsFunction(t *testing.T) {
	for _, context := range [][]string{nil, {"timeout=120"}} {
		x := synth(t, context...)
		sources := map[string]string{"QueuesIngress": "Process", "QueuesIngressFifo": "Process", "QueuesPublish": "Publish", "QueuesPublishFifo": "Publish"}
		for _, q := range queues {
			id, work := x.queue(t, q.id)
			_, f := x.one(t, functionType, sources[q.id])
			visibility, timeout := at(work.Properties, "VisibilityTimeout").(float64), at(f.Properties, "Timeout").(float64)
			if visibility < 6*timeout {
				t.Errorf("%s hides for %v s, its function takes %v s", id, visibility, timeout)
			}
		}
	}
}

func TestEveryQueueFeedsItsFunctionWithPartialBatchResponses(t *testing.T) {
	x := synth(t)
	x.all(t, mappingType, len(queues))
	for _, q := range queues {
		queueID, _ := x.queue(t, q.id)
		functionID, _ := x.one(t, functionType, map[bool]string{true: "Process", false: "Publish"}[strings.Contains(q.id, "Ingress")])
		found := false
		for _, id := range x.all(t, mappingType, len(queues)) {
			r := x.Resources[id]
			if asJSON(at(r.Properties, "EventSourceArn")) != asJSON(arnOf(queueID)) {
				continue
			}
			found = true
			r.expect(t, id, map[string]any{
				"FunctionName": ref(functionID), "FunctionResponseTypes": []string{"ReportBatchItemFailures"}, "ScalingConfig.MaximumConcurrency": 50, "BatchSize": 10,
			})
		}
		if !found {
			t.Errorf("%s feeds nothing", q.id)
		}
	}
}

func TestMaximumConcurrencyIsASetting(t *testing.T) {
	x := synth(t, "maxConcurrency=7", "reservedConcurrency=15")
	for _, id := range x.all(t, mappingType, 4) {
		x.Resources[id].expect(t, id, map[string]any{"ScalingConfig.MaximumConcurrency": 7})
	}
	for _, id := range x.all(t, functionType, 3) {
		x.Resources[id].expect(t, id, map[string]any{"ReservedConcurrentExecutions": 15})
	}
}

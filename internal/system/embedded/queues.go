package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/delay/pebbledelay"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/system/pipeline"
)

// deadSuffix is the end of the names of dead-letter queues.
const deadSuffix = "-dead"

// queues are the queues of a deployment. They share the store's database and so its write-ahead
// log, which is why most writes need not wait for the disk: if one is lost, everything that was
// written after it is lost too.
type queues struct {
	ingress, ingressFIFO *pebblequeue.Queue
	publish, publishFIFO *pebblequeue.Queue
	dead, deadPublish    *pebblequeue.Queue
	delayed              *pebbledelay.Store
	keeper               *delay.Keeper
}

// openQueues opens them without a limit on receives: the functions refuse hopeless messages, with a
// reason, and effects may wait for a destination as long as that takes. The keeper of delayed
// messages is not running.
func openQueues(db *pebble.DB, options pebblequeue.Options, send delay.Send, keeping delay.Options) (*queues, error) {
	delayed, err := pebbledelay.Open(db)
	if err != nil {
		return nil, err
	}
	q := &queues{delayed: delayed, keeper: delay.NewKeeper(delayed, send, keeping)}
	for name, at := range map[string]**pebblequeue.Queue{
		"ingress": &q.ingress, "ingress.fifo": &q.ingressFIFO, "publish": &q.publish, "publish.fifo": &q.publishFIFO,
		"ingress-dead": &q.dead, "publish-dead": &q.deadPublish,
	} {
		if options.Merge = nil; strings.HasSuffix(name, deadSuffix) {
			options.Merge = wire.Letters{Defaults: trusting()}
		}
		opened, err := pebblequeue.Open(db, name, options)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open queue %s: %w", name, err), q.Close())
		}
		*at = opened
	}
	return q, nil
}

// all lists the open queues, dead-letter queues last.
func (q *queues) all() []*pebblequeue.Queue {
	var open []*pebblequeue.Queue
	for _, x := range append([]*pebblequeue.Queue{q.ingress, q.ingressFIFO, q.publish, q.publishFIFO}, q.deads()...) {
		if x != nil {
			open = append(open, x)
		}
	}
	return open
}

func (q *queues) deads() []*pebblequeue.Queue {
	return []*pebblequeue.Queue{q.dead, q.deadPublish}
}

// Close wakes all receivers that wait on a queue.
func (q *queues) Close() error {
	var errs []error
	for _, x := range q.all() {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}

// behindWrites are the ports of the engine: its messages are durable no later than its later
// writes, and nothing waits for the disk.
func (q *queues) behindWrites() pipeline.Ports {
	return pipeline.Ports{
		Ingress: ordered{q.ingress}, IngressFIFO: ordered{q.ingressFIFO},
		Publish: crossing("trigger", ordered{q.publish}), PublishFIFO: crossing("trigger", ordered{q.publishFIFO}),
		Dead: ordered{q.dead}, DeadPublish: ordered{q.deadPublish}, Delays: q.delays(q.delayed.Ordered()),
	}
}

// durable are the ports of the HTTP API, which answers when a message is sent, and of the
// redrive, which then removes the dead letter.
func (q *queues) durable() pipeline.Ports {
	return pipeline.Ports{
		Ingress: crossing("enqueue", q.ingress), IngressFIFO: crossing("enqueue", q.ingressFIFO),
		Publish: q.publish, PublishFIFO: q.publishFIFO, Dead: q.dead, DeadPublish: q.deadPublish,
		Delays: q.delays(crossingDelays("enqueue", q.delayed)),
	}
}

// delays keep every delayed message in a store, because the keeper moves it when it is due.
func (q *queues) delays(store delay.Store) pipeline.Delays {
	return pipeline.Delays{Store: q.keeper.Waking(store)}
}

// An ordered queue does not wait for the disk when it sends.
type ordered struct{ *pebblequeue.Queue }

func (q ordered) Send(ctx context.Context, messages []queue.Message) []queue.SendResult {
	return q.SendOrdered(ctx, messages)
}

package embedded

import (
	"context"
	"errors"
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/front/api"
	streams "github.com/effectively-once/once/internal/front/durable"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/schedule"
	"github.com/effectively-once/once/internal/system/direct"
	"github.com/effectively-once/once/internal/system/pipeline"
	"github.com/effectively-once/once/internal/system/process"
)

// A generation is all that is made of a configuration. [System.Reconfigure] replaces it as a whole.
// Calls that began with the one before end with it: both work on the same store and the same
// queues, as two workers of a deployed system do.
type generation struct {
	config    *config.Config
	pipeline  *pipeline.Pipeline
	door      *pipeline.Queues // for callers that must get no answer before the message is durable
	process   *process.Handler
	publish   queue.Handler
	sessions  *session.Sessions
	schedules *schedule.Schedules
	line      line
}

// newGeneration makes the parts for a configuration. before is the generation that it will replace,
// nil for the first one.
func (s *System) newGeneration(c *config.Config, before *generation) (*generation, error) {
	if !s.options.Inspect {
		if err := pipeline.CheckRegistered(c, s.declared); err != nil {
			return nil, err
		}
	}
	var blobs record.Blobs
	if s.blobs != nil {
		blobs = s.blobs
	}
	var replaced *pipeline.Pipeline
	if before != nil {
		replaced = before.pipeline
	}
	p, err := pipeline.New(pipeline.Config{
		KeptQueues: true,
		Config:     c, Before: replaced, Declared: s.declared, Store: s.watch, Ports: s.queues.behindWrites(), Open: s.openDestination, OpenHandler: s.openHandler, Sign: s.options.Sign, Transport: s.options.Transport, Restores: s.restores, Large: true, Blobs: blobs,
		Trusted: trusting().Trusted, Starting: pollStarting, Watch: s.telemetry, Waiting: s.waiting, Recalls: true, Forward: streams.Wrap, LogState: streams.OwnsState, Appended: s.appends.Appended, Now: s.options.Now, Log: s.options.Log, LogKeys: s.options.LogKeys,
	})
	if err != nil {
		return nil, err
	}
	g := &generation{config: c, pipeline: p, door: p.Queues.Over(s.queues.durable()), process: p.Process(), publish: p.Publish().Handle}
	sessions := session.Config{Records: s.store.Groups, Alone: true, MaxPool: maxPool}
	if before != nil {
		g.process.Continue(before.process)
		sessions.Before = before.sessions
	}
	g.sessions = p.Sessions(s.store, g.door, sessions)
	if g.schedules, err = p.Schedules(s.store, durable{live{s}, s}, liveQueue{s}); err != nil {
		return nil, errors.Join(err, p.Discard())
	}
	g.line = s.line(p)
	return g, nil
}

// live is the engine of the present generation, for those that are made once.
type live struct{ s *System }

func (l live) engine() *dedup.Engine { return l.s.now().pipeline.Engine }

// now returns the present generation.
func (s *System) now() *generation { return s.generation.Load() }

// The methods of the engine.

func (l live) Stream(name string) (record.Stream, bool) { return l.engine().Stream(name) }

func (l live) StreamNames() []string { return l.engine().StreamNames() }

func (l live) Process(ctx context.Context, messages []record.Message) []record.Outcome {
	return l.engine().Process(ctx, messages)
}

func (l live) Call(ctx context.Context, m record.Message) record.Outcome {
	return l.engine().Call(ctx, m)
}

func (l live) Issue(ctx context.Context, m record.Message) (record.Token, bool, error) {
	return l.engine().Issue(ctx, m)
}

func (l live) IssueAll(ctx context.Context, messages []record.Message) []admission.Issued {
	return l.engine().IssueAll(ctx, messages)
}

func (l live) Forget(ctx context.Context, m record.Message) error { return l.engine().Forget(ctx, m) }

func (l live) Status(ctx context.Context, m record.Message) (admission.State, error) {
	return l.engine().Status(ctx, m)
}

func (l live) IssueEpoch(ctx context.Context, m record.Message, after *uint64) (uint64, error) {
	return l.engine().IssueEpoch(ctx, m, after)
}

func (l live) CheckEpochs(ctx context.Context, messages []record.Message) []error {
	return l.engine().CheckEpochs(ctx, messages)
}

func (l live) DropGroup(ctx context.Context, key record.GroupKey) error {
	return l.engine().DropGroup(ctx, key)
}

func (l live) Publish(ctx context.Context, groups []record.GroupKey) []error {
	return l.engine().Publish(ctx, groups)
}

func (l live) Sweep(ctx context.Context, key record.GroupKey) error {
	return l.engine().Sweep(ctx, key)
}

func (l live) SweepBlobs(ctx context.Context, lister record.Lister, before time.Time) (int, error) {
	return l.engine().SweepBlobs(ctx, lister, before)
}

func (l live) CloseGaps(ctx context.Context, key record.GroupKey) error {
	return l.engine().CloseGaps(ctx, key)
}

// liveQueue is the ingress queue of the present generation.
type liveQueue struct{ s *System }

// EnqueueAll implements [api.Queue].
func (q liveQueue) EnqueueAll(ctx context.Context, messages []record.Message) []error {
	return q.s.now().door.EnqueueAll(ctx, messages)
}

// liveSessions are those of the present generation.
type liveSessions struct{ s *System }

var _ api.Sessions = liveSessions{}

func (l liveSessions) at() *session.Sessions { return l.s.now().sessions }

func (l liveSessions) Open(ctx context.Context, id session.ID, o session.Opening) (session.Opened, error) {
	return l.at().Open(ctx, id, o)
}

func (l liveSessions) Read(ctx context.Context, id session.ID, r session.Reading) (session.Page, error) {
	return l.at().Read(ctx, id, r)
}

func (l liveSessions) Commit(ctx context.Context, id session.ID, c session.Commit) error {
	return l.at().Commit(ctx, id, c)
}

func (l liveSessions) Fail(ctx context.Context, id session.ID, f session.Failure) (session.Failed, error) {
	return l.at().Fail(ctx, id, f)
}

func (l liveSessions) Release(ctx context.Context, id session.ID, fence uint64) error {
	return l.at().Release(ctx, id, fence)
}

func (l liveSessions) Renew(ctx context.Context, id session.ID, fence uint64) (time.Time, error) {
	return l.at().Renew(ctx, id, fence)
}

func (l liveSessions) Retire(ctx context.Context, id session.ID, r session.Retirement) error {
	return l.at().Retire(ctx, id, r)
}

func (l liveSessions) Describe(ctx context.Context, id session.ID) (session.Description, error) {
	return l.at().Describe(ctx, id)
}

func (l liveSessions) List(ctx context.Context, stream, group, after string, limit int) (session.Listing, error) {
	return l.at().List(ctx, stream, group, after, limit)
}

func (l liveSessions) EndStream(ctx context.Context, stream string) error {
	return l.at().EndStream(ctx, stream)
}

func (l liveSessions) Closed(ctx context.Context, stream string) (bool, error) {
	return l.at().Closed(ctx, stream)
}

func (l liveSessions) DescribePool(ctx context.Context, stream string) (session.PoolDescription, error) {
	return l.at().DescribePool(ctx, stream)
}

// liveProcessor is the function behind the ingress queues, of the present generation.
type liveProcessor struct{ s *System }

var _ direct.Processor = liveProcessor{}

// Direct implements [direct.Processor], as do the next two.
func (p liveProcessor) Direct(ctx context.Context, until time.Time, x record.Stream, m record.Message) process.Result {
	return p.s.now().process.Direct(ctx, until, x, m)
}

// DirectAll is like Direct.
func (p liveProcessor) DirectAll(ctx context.Context, until time.Time, x record.Stream, messages []record.Message) []process.Result {
	return p.s.now().process.DirectAll(ctx, until, x, messages)
}

// Queued is like Direct.
func (p liveProcessor) Queued(id string, r process.Result) { p.s.now().process.Queued(id, r) }

// liveLine is the order of the messages on the queues, by the present generation.
type liveLine struct{ s *System }

// Reserve implements [direct.Line].
func (l liveLine) Reserve(m *record.Message) (direct.Place, bool) { return l.s.now().line.Reserve(m) }

// ReserveAll implements [direct.Line].
func (l liveLine) ReserveAll(ctx context.Context, messages []record.Message) direct.Places {
	return l.s.now().line.ReserveAll(ctx, messages)
}

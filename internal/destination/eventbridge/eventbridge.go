// Package eventdest is a destination that is an event bus in Amazon EventBridge.
//
// # Events
//
// An event's source is "once." and the sending stream. Its detail-type is the effect's header
// detail-type, if it has at most 128 characters, or else the stream. Its detail is a JSON object:
//
//	identity                     the delivery's identity, the same for every copy
//	stream, group, number        the sending group, and the effect's number there
//	incarnation                  when the group began, in Unix milliseconds: if a group is
//	                             forgotten, it numbers from 1 again under a new incarnation
//	id, source, epoch, sequence  of the forwarded message
//	content_type, headers        the effect's
//	body                         as JSON if it is JSON, and the content type is JSON or missing;
//	                             otherwise as a string; body_base64 if it is not UTF-8
//
// Empty fields are left out. So a rule can match {"source": ["once.orders"], "detail": {"body":
// {"status": ["paid"]}}}, and a target finds the identity in $.detail.identity.
//
// # Order
//
// EventBridge keeps no order and drops no duplicates: a target may receive an event more than once
// and has to deduplicate by the identity. If it remembers identities for longer than the group is
// kept, it has to use the incarnation too.
//
// # Errors
//
// If an event is certainly too large, or EventBridge reports it as malformed, the error is a
// [*record.RefusedError]. After any other error the delivery is sent again under the same identity.
//
// # Limits
//
// An event and a request are limited to 1 MB. For a bus that is named by ARN, the ARN's region is
// used.
package eventdest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/internal/aws/call"
	"github.com/effectively-once/once/internal/destination/batch"
	"github.com/effectively-once/once/internal/record"
)

// An entry is an event in PutEvents.
type entry struct{ EventBusName, Source, DetailType, Detail string }

// A taken is what PutEvents answers to an entry.
type taken struct{ EventId, ErrorCode, ErrorMessage string } //nolint:revive // as the API has it

const (
	requestBytes = 1_000_000 // a size that fits into a request for every definition of a megabyte
	maxEvent     = 1 << 20   // the largest size of an event for every definition
	surelyTaken  = 250_000   // a size that EventBridge has always accepted
)

// A Sender sends to one bus.
type Sender struct {
	client *call.Client
	bus    string
	batch  batch.Service[entry]
}

var _ record.Sender = (*Sender)(nil)

// New returns a sender to a bus, by name or ARN. It makes no call.
func New(client *call.Client, bus string) (*Sender, error) {
	s := &Sender{client: client, bus: bus}
	if arn.IsARN(bus) {
		parsed, err := arn.Parse(bus)
		if err != nil || parsed.Service != "events" || !strings.HasPrefix(parsed.Resource, "event-bus/") {
			return nil, fmt.Errorf("send to event bus %s: not the ARN of a bus", bus)
		}
		s.client = client.In(parsed.Region)
	} else if bus == "" || strings.ContainsAny(bus, " :") {
		return nil, fmt.Errorf("send to event bus %q: not the name or ARN of a bus", bus)
	}
	s.batch = batch.Service[entry]{Name: "event bus " + bus, Bytes: requestBytes, Entry: s.entry, Put: s.put}
	return s, nil
}

// Send implements record.Sender.
func (s *Sender) Send(ctx context.Context, deliveries []record.Delivery) []error {
	return s.batch.Send(ctx, deliveries)
}

func (s *Sender) entry(d *record.Delivery) (entry, int, error) {
	text, err := describe(d)
	if err != nil {
		return entry{}, 0, batch.Refuse(err.Error())
	}
	e := entry{EventBusName: s.bus, Source: "once." + d.Stream, DetailType: detailType(d), Detail: text}
	n := size(&e)
	if n > maxEvent {
		return e, n, batch.Refuse(fmt.Sprintf("event of %d bytes: at most %d", n, maxEvent))
	}
	return e, n, nil
}

// size returns the size of an event as EventBridge counts it.
func size(e *entry) int {
	return len(e.Source) + len(e.DetailType) + len(e.Detail)
}

func (s *Sender) put(ctx context.Context, entries []entry) ([]error, error) {
	var out struct{ Entries []taken }
	if err := s.client.JSON(ctx, "PutEvents", map[string]any{"Entries": entries}, &out); err != nil {
		return nil, whole(err, entries)
	}
	errs := make([]error, len(entries))
	for i := range errs {
		errs[i] = batch.ErrNoResult
		if i < len(out.Entries) {
			errs[i] = result(&out.Entries[i])
		}
	}
	return errs, nil
}

// whole marks errors of a request that are caused by its content: in some region a limit may be
// lower.
func whole(err error, entries []entry) error {
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return err
	}
	switch answer.ErrorCode() {
	case "ValidationException", "RequestEntityTooLargeException", "RequestTooLarge", "413":
		if len(entries) == 1 && size(&entries[0]) > surelyTaken {
			err = batch.Refuse("too large for the bus: " + answer.ErrorMessage())
		}
		return &batch.Contents{Err: err}
	}
	return err
}

// result returns the error of one entry, or nil if the event was accepted.
func result(e *taken) error {
	code := e.ErrorCode
	err := fmt.Errorf("%s: %s", code, e.ErrorMessage)
	switch {
	case code == "" && e.EventId != "":
		return nil
	case code == "":
		return batch.ErrNoResult
	case strings.HasPrefix(code, "Internal"), strings.HasPrefix(code, "Throttling"), strings.HasPrefix(code, "ServiceUnavailable"):
		return batch.Again(err)
	case code == "MalformedDetail":
		return batch.Refuse(err.Error())
	default:
		return err
	}
}

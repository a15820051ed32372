// Package eventdest is a destination that is an event bus in Amazon EventBridge.
//
// # Events
//
// An event's source is "once." and the stream that sends; its detail-type is what the effect's header detail-type says, of at most 128 characters, or else the stream. Its detail
// is a JSON object:
//
//	identity                     the delivery's, the same however often it is sent
//	stream, group, number        where it comes from, and its number there
//	incarnation                  when the group began, in Unix milliseconds: a group that was forgotten numbers from 1 again, under a new one
//	id, source, epoch, sequence  of the message that was forwarded
//	content_type, headers        the effect's
//	body                         as JSON where the content type is JSON, or there is none, and it is JSON; else as a string; body_base64 where it is no UTF-8
//
// What is empty is left out. So a rule matches {"source": ["once.orders"], "detail": {"body": {"status": ["paid"]}}}, and a target finds the identity in $.detail.identity.
//
// # Order
//
// EventBridge keeps no order and drops nothing: a target sees an event more than once and drops duplicates by the identity; by the incarnation as well if
// it remembers them for longer than the group is remembered.
//
// # Errors
//
// An event that is certainly too large, or that EventBridge calls malformed, is a [*record.RefusedError]. Any other error is an ordinary one, and the delivery
// is sent again under the same identity.
//
// # Limits
//
// An event and a request hold 1 MB. A bus that is given by ARN is asked in the ARN's region.
package eventdest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/internal/destination/batch"
	"github.com/effectively-once/once/internal/record"
)

// Client is what the destination asks of EventBridge; *eventbridge.Client is one.
type Client interface {
	PutEvents(ctx context.Context, in *eventbridge.PutEventsInput, options ...func(*eventbridge.Options)) (*eventbridge.PutEventsOutput, error)
}

const (
	requestBytes = 1_000_000 // what fits into a request wherever a megabyte is counted
	maxEvent     = 1 << 20   // no event is larger, however it is counted
	surelyTaken  = 250_000   // what EventBridge has always taken
)

// A Sender sends to one bus.
type Sender struct {
	client Client
	bus    string
	region string // empty is the client's
	batch  batch.Service[types.PutEventsRequestEntry]
}

var _ record.Sender = (*Sender)(nil)

// New makes a sender to a bus's name or ARN. It does no call.
func New(client Client, bus string) (*Sender, error) {
	s := &Sender{client: client, bus: bus}
	if arn.IsARN(bus) {
		parsed, err := arn.Parse(bus)
		if err != nil || parsed.Service != "events" || !strings.HasPrefix(parsed.Resource, "event-bus/") {
			return nil, fmt.Errorf("send to event bus %s: not the ARN of a bus", bus)
		}
		s.region = parsed.Region
	} else if bus == "" || strings.ContainsAny(bus, " :") {
		return nil, fmt.Errorf("send to event bus %q: not the name or ARN of a bus", bus)
	}
	s.batch = batch.Service[types.PutEventsRequestEntry]{Name: "event bus " + bus, Bytes: requestBytes, Entry: s.entry, Put: s.put}
	return s, nil
}

// Send implements record.Sender.
func (s *Sender) Send(ctx context.Context, deliveries []record.Delivery) []error {
	return s.batch.Send(ctx, deliveries)
}

func (s *Sender) entry(d *record.Delivery) (types.PutEventsRequestEntry, int, error) {
	text, err := describe(d)
	if err != nil {
		return types.PutEventsRequestEntry{}, 0, batch.Refuse(err.Error())
	}
	e := types.PutEventsRequestEntry{
		EventBusName: &s.bus, Source: aws.String("once." + d.Stream), DetailType: aws.String(detailType(d)), Detail: &text,
	}
	n := size(&e)
	if n > maxEvent {
		return e, n, batch.Refuse(fmt.Sprintf("event of %d bytes: at most %d", n, maxEvent))
	}
	return e, n, nil
}

// size is the size of an event as EventBridge counts it.
func size(e *types.PutEventsRequestEntry) int {
	return len(*e.Source) + len(*e.DetailType) + len(*e.Detail)
}

func (s *Sender) put(ctx context.Context, entries []types.PutEventsRequestEntry) ([]error, error) {
	out, err := s.client.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: entries}, func(o *eventbridge.Options) {
		if s.region != "" {
			o.Region = s.region
		}
	})
	if err != nil {
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

// whole marks the errors of a request that are about what is in it: a limit may be lower somewhere than here.
func whole(err error, entries []types.PutEventsRequestEntry) error {
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

// result is the error of one entry; nil where the event is taken.
func result(e *types.PutEventsResultEntry) error {
	code := aws.ToString(e.ErrorCode)
	err := fmt.Errorf("%s: %s", code, aws.ToString(e.ErrorMessage))
	switch {
	case code == "" && aws.ToString(e.EventId) != "":
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

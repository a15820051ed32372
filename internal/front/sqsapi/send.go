package sqsapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

const maxBatch = 10

// An attribute is a message attribute as the JSON protocol has it.
type attribute struct {
	DataType    string
	StringValue *string
	BinaryValue []byte
}

type sendInput struct {
	QueueURL string `json:"QueueUrl"`
	entry
}

// An entry is one message to send.
type entry struct {
	ID                      string `json:"Id"` // within a batch
	MessageBody             string
	DelaySeconds            int64
	MessageAttributes       map[string]attribute
	MessageSystemAttributes map[string]attribute
	MessageGroupID          string `json:"MessageGroupId"`
	MessageDeduplicationID  string `json:"MessageDeduplicationId"`
}

type batchInput struct {
	QueueURL string `json:"QueueUrl"`
	Entries  []entry
}

type sendOutput struct {
	ID                           string `json:"Id,omitempty"`
	MessageID                    string `json:"MessageId"`
	MD5OfMessageBody             string
	MD5OfMessageAttributes       string `json:",omitempty"`
	MD5OfMessageSystemAttributes string `json:",omitempty"`
	SequenceNumber               string `json:",omitempty"`
}

type batchOutput struct {
	Successful []sendOutput
	Failed     []failedEntry
}

type failedEntry struct {
	ID          string `json:"Id"`
	Code        string
	Message     string
	SenderFault bool
}

func (h *Handler) send(r *http.Request, in *sendInput) (any, error) {
	t, err := h.byURL(in.QueueURL)
	if err != nil {
		return nil, err
	}
	m, err := in.message(t)
	if err != nil {
		return nil, err
	}
	result := h.put(r.Context(), t, []queue.Message{m})[0]
	if result.Err != nil {
		return nil, sendError(result.Err)
	}
	in.ID = ""
	return in.output(result), nil
}

func (h *Handler) sendBatch(r *http.Request, in *batchInput) (any, error) {
	t, err := h.byURL(in.QueueURL)
	if err != nil {
		return nil, err
	}
	if err := in.validate(); err != nil {
		return nil, err
	}
	out := batchOutput{Successful: []sendOutput{}, Failed: []failedEntry{}}
	var messages []queue.Message
	var whose []*entry
	for i := range in.Entries {
		e := &in.Entries[i]
		m, err := e.message(t)
		if err != nil {
			out.Failed = append(out.Failed, failed(e.ID, err))
			continue
		}
		messages, whose = append(messages, m), append(whose, e)
	}
	for i, result := range h.put(r.Context(), t, messages) {
		if result.Err != nil {
			h.config.Log.Warn("message not sent", "queue", t.name, "error", result.Err)
			out.Failed = append(out.Failed, failed(whose[i].ID, sendError(result.Err)))
			continue
		}
		out.Successful = append(out.Successful, whose[i].output(result))
	}
	return out, nil
}

// put puts messages on the queue of a target. The messages of a source are read first, as the
// functions of a deployment read them behind its queue; one that can't be read is refused.
func (h *Handler) put(ctx context.Context, t target, messages []queue.Message) []queue.SendResult {
	if t.source == nil {
		return h.putChecked(ctx, t.queue, messages)
	}
	out := make([]queue.SendResult, len(messages))
	for i := range messages {
		out[i].ID = uuid.NewString()
		read, err := t.source.Read(&queue.Delivery{Message: messages[i], Queue: t.queue.Name(), ID: out[i].ID, Receives: 1})
		for k := range read.Messages {
			err = cmp.Or(err, h.config.Check(&read.Messages[k]))
		}
		if invalid, ok := errors.AsType[*record.InvalidError](err); ok {
			out[i].Err = &queue.InvalidError{Field: invalid.Field, Rule: invalid.Rule}
			continue
		}
		if out[i].Err = err; err == nil {
			out[i].Err = errors.Join(h.config.Enqueue(ctx, read.Messages)...)
		}
	}
	return out
}

// putChecked puts messages on a queue, except those whose body is larger than their stream takes.
// Only a body that not every stream takes is decoded here.
func (h *Handler) putChecked(ctx context.Context, to queue.Queue, messages []queue.Message) []queue.SendResult {
	out := make([]queue.SendResult, len(messages))
	var good []queue.Message
	var places []int
	for i := range messages {
		if len(messages[i].Body) > record.SmallBody {
			// the queue gives it an id; an invalid message becomes a dead letter that says why
			m, _, err := wire.FromQueue(&queue.Delivery{Message: messages[i], Queue: to.Name(), ID: "new"}, wire.Defaults{})
			if err == nil {
				err = h.config.Check(&m)
				if invalid, ok := errors.AsType[*record.InvalidError](err); ok {
					out[i].Err = &queue.InvalidError{Field: invalid.Field, Rule: invalid.Rule}
					continue
				}
			}
		}
		good, places = append(good, messages[i]), append(places, i)
	}
	for k, result := range to.Send(ctx, good) {
		out[places[k]] = result
	}
	return out
}

// sendError returns a client's error if no queue would take the message, and the error itself if
// the queue failed.
func sendError(err error) error {
	if invalid, ok := errors.AsType[*queue.InvalidError](err); ok {
		return failure(shapeParameter, "The message is not valid: "+invalid.Error()+".")
	}
	return err
}

func failed(id string, err error) failedEntry {
	var e *apiError
	if !errors.As(err, &e) {
		e = errInternal
	}
	return failedEntry{ID: id, Code: e.code, Message: e.message, SenderFault: e.status < http.StatusInternalServerError}
}

// validate checks the rules for a batch as a whole.
func (in *batchInput) validate() error {
	switch {
	case len(in.Entries) == 0:
		return failure(shapeEmptyBatch, "There should be at least one SendMessageBatchRequestEntry in the request.")
	case len(in.Entries) > maxBatch:
		return failure(shapeTooMany, fmt.Sprintf("Maximum number of entries per request are %d. You have sent %d.", maxBatch, len(in.Entries)))
	}
	seen, size := map[string]bool{}, 0
	for i := range in.Entries {
		e := &in.Entries[i]
		size += e.size()
		if !validEntryID(e.ID) {
			return failure(shapeEntryID, "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.")
		}
		if seen[e.ID] {
			return failure(shapeNotDistinct, "Id "+e.ID+" repeated.")
		}
		seen[e.ID] = true
	}
	if size > queue.MaxSize {
		return failure(shapeTooLong, fmt.Sprintf("Batch requests cannot be longer than %d bytes. You have sent %d bytes.", queue.MaxSize, size))
	}
	return nil
}

func validEntryID(id string) bool {
	if id == "" || len(id) > 80 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// size counts as SQS does.
func (e *entry) size() int {
	n := len(e.MessageBody)
	for name, a := range e.MessageAttributes {
		n += len(name) + len(a.DataType) + len(a.BinaryValue)
		if a.StringValue != nil {
			n += len(*a.StringValue)
		}
	}
	return n
}

// message checks an entry against the rules of SQS and returns the message for the queue.
func (e *entry) message(t target) (queue.Message, error) {
	m := queue.Message{
		Body: e.MessageBody, Group: e.MessageGroupID, DedupID: e.MessageDeduplicationID, Sender: ownSender,
		Delay: time.Duration(e.DelaySeconds) * time.Second, Attributes: map[string]string{},
	}
	switch {
	case m.Body == "":
		return m, failure(shapeMissing, "The request must contain the parameter MessageBody.")
	case !queue.ValidText(m.Body):
		return m, failure(shapeContents, "The message contains characters outside the allowed set.")
	case len(m.Body) > record.MaxBody || e.size() > queue.MaxSize:
		return m, failure(shapeParameter, fmt.Sprintf("One or more parameters are invalid. Reason: Message body must be at most %d bytes.", record.MaxBody))
	case e.DelaySeconds < 0 || e.DelaySeconds > int64(queue.MaxDelay/time.Second):
		return m, failure(shapeParameter, fmt.Sprintf("Value %d for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.", e.DelaySeconds))
	}
	if t.source != nil && e.DelaySeconds != 0 {
		return m, failure(shapeParameter, "Value for parameter DelaySeconds is invalid. Reason: the queue of a source delays no messages here.")
	}
	if err := e.validOrder(t); err != nil {
		return m, err
	}
	if err := e.validAttributes(); err != nil {
		return m, err
	}
	for name, a := range e.MessageAttributes {
		if a.StringValue != nil {
			m.Attributes[name] = *a.StringValue
		}
	}
	if t.stream != "" && m.Attributes[wire.AttrStream] == "" {
		m.Attributes[wire.AttrStream] = t.stream
	}
	if len(m.Attributes) > queue.MaxAttributes {
		return m, failure(shapeParameter, "A queue that is bound to a stream takes 9 message attributes here, or 10 with "+wire.AttrStream+" among them.")
	}
	return m, nil
}

// validOrder checks the rules that hold only for a first-in-first-out queue.
func (e *entry) validOrder(t target) error {
	id := e.MessageDeduplicationID
	switch {
	case e.MessageGroupID != "" && !queue.ValidGroup(e.MessageGroupID):
		return failure(shapeParameter, "Value for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
	case id != "" && !queue.ValidGroup(id):
		return failure(shapeParameter, "Value for parameter MessageDeduplicationId is invalid. Reason: MessageDeduplicationId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
	case !t.fifo() && id != "":
		return failure(shapeParameter, "Value for parameter MessageDeduplicationId is invalid. Reason: The request includes a parameter that is not valid for this queue type.")
	case !t.fifo():
		return nil
	case e.MessageGroupID == "":
		return failure(shapeMissing, "The request must contain the parameter MessageGroupId.")
	case e.DelaySeconds != 0:
		return failure(shapeParameter, fmt.Sprintf("Value %d for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for this queue type.", e.DelaySeconds))
	case id == "" && t.source == nil && !e.has(wire.AttrID) && !e.has(wire.AttrSource):
		return failure(shapeParameter, "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly, or the attribute "+wire.AttrID+".")
	}
	return nil
}

func (e *entry) has(name string) bool {
	a, ok := e.MessageAttributes[name]
	return ok && a.StringValue != nil && *a.StringValue != ""
}

func (e *entry) output(r queue.SendResult) sendOutput {
	return sendOutput{
		ID: e.ID, MessageID: r.ID, SequenceNumber: r.SequenceNumber, MD5OfMessageBody: MD5OfBody(e.MessageBody),
		MD5OfMessageAttributes: md5OfAttributes(e.MessageAttributes), MD5OfMessageSystemAttributes: md5OfAttributes(e.MessageSystemAttributes),
	}
}

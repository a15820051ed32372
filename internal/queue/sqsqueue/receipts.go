package sqsqueue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// entryTries is how often an entry of a batch is tried that SQS could not serve. The SDK retries
// whole requests only.
const entryTries = 3

// maxHide is the longest time for which Hide hides a message. SQS allows 12 hours in total from
// the receipt of a message, and part of them has passed.
const maxHide = 11*time.Hour + 30*time.Minute

// Delete implements queue.Queue, in batches of ten.
func (q *Queue) Delete(ctx context.Context, receipts []string) []error {
	stale := func(f *types.BatchResultErrorEntry) bool {
		code := aws.ToString(f.Code) // the receipt is the only parameter
		return code == "ReceiptHandleIsInvalid" || code == "InvalidParameterValue"
	}
	return q.each(ctx, "delete from", receipts, stale, func(indexes []int) (done []string, failed []types.BatchResultErrorEntry, err error) {
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &q.url}
		for i, at := range indexes {
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: entryID(i), ReceiptHandle: &receipts[at]})
		}
		out, err := q.client.DeleteMessageBatch(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		for _, ok := range out.Successful {
			done = append(done, aws.ToString(ok.Id))
		}
		return done, out.Failed, nil
	})
}

// Hide hides received messages, each for its time from now, in batches of ten; 11 hours and 30
// minutes are the most. It returns a result for each. A receipt that has expired, or whose message
// is visible again, is ignored: another receiver may have the message.
func (q *Queue) Hide(ctx context.Context, receipts []string, times []time.Duration) []error {
	stale := func(f *types.BatchResultErrorEntry) bool {
		switch code := aws.ToString(f.Code); {
		case strings.HasSuffix(code, "MessageNotInflight"), code == "ReceiptHandleIsInvalid":
			return true
		case code == "InvalidParameterValue": // of the receipt, or of the time
			return strings.Contains(aws.ToString(f.Message), "ReceiptHandle")
		}
		return false
	}
	return q.each(ctx, "change visibility on", receipts, stale, func(indexes []int) (done []string, failed []types.BatchResultErrorEntry, err error) {
		in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &q.url}
		for i, at := range indexes {
			in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{
				Id: entryID(i), ReceiptHandle: &receipts[at], VisibilityTimeout: seconds(min(times[at], maxHide)),
			})
		}
		out, err := q.client.ChangeMessageVisibilityBatch(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		for _, ok := range out.Successful {
			done = append(done, aws.ToString(ok.Id))
		}
		return done, out.Failed, nil
	})
}

func entryID(i int) *string { return aws.String(strconv.Itoa(i)) }

// each sends a request for receipts, ten at a time, and returns a result for each. The ids of the
// entries are their places in indexes. Entries that SQS could not serve are sent again. If stale
// returns true for the error of an entry, its receipt is not valid any more, which is no error.
func (q *Queue) each(ctx context.Context, doing string, receipts []string, stale func(*types.BatchResultErrorEntry) bool,
	send func(indexes []int) (done []string, failed []types.BatchResultErrorEntry, err error),
) []error {
	errs := make([]error, len(receipts))
	left := make([]int, len(receipts))
	for i := range left {
		left[i] = i
	}
	for try := 0; try < entryTries && (try == 0 || ctx.Err() == nil); try++ {
		var again []int
		for from := 0; from < len(left); from += batch {
			indexes := left[from:min(from+batch, len(left))]
			done, failed, err := send(indexes)
			if err != nil { // the SDK has retried
				for _, at := range indexes {
					errs[at] = fmt.Errorf("%s %s: %w", doing, q.name, err)
				}
				continue
			}
			for _, at := range indexes {
				errs[at] = fmt.Errorf("%s %s: %w", doing, q.name, errNoResult)
			}
			for _, id := range done {
				if i, named := place(&id, len(indexes)); named {
					errs[indexes[i]] = nil
				}
			}
			final := map[int]bool{}
			for j := range failed {
				f := &failed[j]
				i, named := place(f.Id, len(indexes))
				if !named {
					continue
				}
				errs[indexes[i]], final[i] = fmt.Errorf("%s %s: %w", doing, q.name, failure(f)), f.SenderFault
				if stale(f) {
					errs[indexes[i]] = nil
				}
			}
			for i, at := range indexes {
				if errs[at] != nil && !final[i] {
					again = append(again, at)
				}
			}
		}
		left = again
	}
	return errs
}

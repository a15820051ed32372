package sqsqueue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Hide hides received messages, each for its time from now, in batches of ten. It returns a result
// for each. An expired receipt is ignored: another receiver may have the message.
func (q *Queue) Hide(ctx context.Context, receipts []string, times []time.Duration) []error {
	errs := make([]error, len(receipts))
	for from := 0; from < len(receipts); from += batch {
		to := min(from+batch, len(receipts))
		q.hideBatch(ctx, receipts[from:to], times[from:to], errs[from:to])
	}
	return errs
}

func (q *Queue) hideBatch(ctx context.Context, receipts []string, times []time.Duration, errs []error) {
	entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(receipts))
	for i := range receipts {
		entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &receipts[i], VisibilityTimeout: seconds(min(times[i], maxVisibility)),
		}
		errs[i] = fmt.Errorf("change visibility on %s: %w", q.name, errNoResult)
	}
	out, err := q.client.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &q.url, Entries: entries})
	if err != nil {
		for i := range errs {
			errs[i] = fmt.Errorf("change visibility on %s: %w", q.name, err)
		}
		return
	}
	for _, ok := range out.Successful {
		if i, named := place(ok.Id, len(receipts)); named {
			errs[i] = nil
		}
	}
	for j := range out.Failed {
		f := &out.Failed[j]
		if i, named := place(f.Id, len(receipts)); named {
			errs[i] = fmt.Errorf("change visibility on %s: %w", q.name, failure(f))
			if stale(aws.ToString(f.Code)) {
				errs[i] = nil
			}
		}
	}
}

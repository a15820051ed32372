package sqsqueue

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Delete implements queue.Queue, in batches of ten.
func (q *Queue) Delete(ctx context.Context, receipts []string) []error {
	errs := make([]error, len(receipts))
	for from := 0; from < len(receipts); from += batch {
		to := min(from+batch, len(receipts))
		q.deleteBatch(ctx, receipts[from:to], errs[from:to])
	}
	return errs
}

func (q *Queue) deleteBatch(ctx context.Context, receipts []string, errs []error) {
	entries := make([]types.DeleteMessageBatchRequestEntry, len(receipts))
	for i := range receipts {
		entries[i] = types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &receipts[i]}
		errs[i] = fmt.Errorf("delete from %s: %w", q.name, errNoResult)
	}
	out, err := q.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &q.url, Entries: entries})
	if err != nil {
		for i := range errs {
			errs[i] = fmt.Errorf("delete from %s: %w", q.name, err)
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
			errs[i] = fmt.Errorf("delete from %s: %w", q.name, failure(f))
			if stale(aws.ToString(f.Code)) {
				errs[i] = nil
			}
		}
	}
}

// stale reports whether SQS refused a receipt because it is invalid or its time has ended. Then the
// message is gone, or belongs to another receiver.
func stale(code string) bool {
	switch code {
	case "ReceiptHandleIsInvalid", "InvalidParameterValue":
		return true
	}
	return false
}

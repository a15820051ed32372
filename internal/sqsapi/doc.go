// Package sqsapi answers the JSON protocol of SQS, for sending only, so that producers with an AWS SDK push to an embedded system unchanged.
//
// It knows SendMessage, SendMessageBatch, GetQueueUrl and GetQueueAttributes, and these queues: ingress, ingress.fifo, and every stream's name with or without .fifo,
// whose messages belong to that stream. Requests are told from others by the header X-Amz-Target, see [Handles]; their path and their signature are not
// looked at.
//
// # Errors
//
// Errors have the form, codes and status that SQS gives them, so that SDKs raise their usual exceptions. An answer of 5xx leaves open whether messages were sent; SDKs
// repeat it, and what was sent twice under one identity is processed once.
//
// # Limits
//
// A body may have as many bytes as a message of the engine ([record.MaxBody]), a quarter of what SQS takes; it is refused here rather than after it was
// accepted. Binary attributes count into the checksum and are dropped, as the engine would. The query protocol of older SDKs is refused.
package sqsapi

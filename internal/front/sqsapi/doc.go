// Package sqsapi answers the JSON protocol of SQS, for sending only, so that producers with an AWS
// SDK push to an embedded system unchanged.
//
// It knows SendMessage, SendMessageBatch, GetQueueUrl and GetQueueAttributes, and these queues:
// ingress, ingress.fifo, and every stream's name with or without .fifo, whose messages belong to
// that stream; and ingress-NAME for each source of the configuration, as its queue on AWS. Requests
// are recognized by the header X-Amz-Target, see [Handles]; their path and their signature are not
// checked.
//
// # Errors
//
// Errors have the form, codes and status of those of SQS, so that SDKs raise their usual
// exceptions. After an answer of 5xx it is unknown if messages were sent; SDKs repeat the request,
// and a message that was sent twice under one identity is processed once.
//
// # Limits
//
// A message has at most 1 MiB with its attributes, as in SQS. If its stream takes less, it is
// refused here rather than after it was accepted. Binary attributes count into the checksum and are
// dropped, as the engine would. The query protocol of older SDKs is refused.
package sqsapi

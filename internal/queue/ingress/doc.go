// Package ingress reads the messages of AWS services and of other accounts from queues that are
// bound to one stream. Their senders know nothing of the attributes of package wire.
//
// # Identity
//
// Every source has a queue of its own, and SQS lets nobody else send to it. So the queue that
// delivers a message authenticates its sender, and the principal of the message is the source,
// as in ingress:orders. Two sources never share an identity, and neither does a source share one
// with a caller of the HTTP API or a sender to the queues for all streams.
//
// An identity comes from the attribute once-id or once-source, then from the configured paths,
// then from what the service itself says:
//
//	eventbridge  $.id
//	pipes        $.eventID, as the records of DynamoDB and Kinesis have it
//	s3           bucket, key, version, sequencer and name of the event
//	sns          the MessageId of the envelope
//
// and last from the MessageDeduplicationId or the id of the message in the queue, as in package
// wire.
//
// # Errors
//
// A message that lacks what its identity or its group is made of is invalid: no identity is made
// up. The error is a [*record.InvalidError] that names the path. The message that is returned with
// it can be dead-lettered, and is read again when it is redriven; see [Source.Again].
//
// # Limits
//
// A body from which a path is read must be one JSON document. An id or a group that is longer than
// record.MaxName is shortened by record.Fit.
package ingress

// Package watermill is a Pub/Sub of Watermill (github.com/ThreeDotsLabs/watermill) on a once
// server: a [Publisher] that can repeat a message without doubling it, and a [Subscriber] whose
// messages and database writes are one transaction.
//
//	publisher, err := watermill.NewPublisher(c, watermill.PublisherConfig{Stream: "events"})
//	subscriber, err := watermill.NewSubscriber(c, watermill.SubscriberConfig{
//		Stream: "events", ConsumerGroup: "mailer",
//	})
//
// # Topics
//
// A topic is the log of a group of one stream, if Stream is set: the group has the topic's name.
// Its messages have one order. Each consumer group gets every message: it is a session of that
// log. If a consumer group has several subscribers, one of them gets the messages, and the others
// wait to take over.
//
// Without Stream, a topic is a stream with a pool. Each message goes to one of the pool's
// sessions, and so to one of the consumer groups: give each subscriber a name of its own, and
// they share the work. There is no order between the messages of different subscribers.
//
// # Guarantees
//
// A message is published once, however often Publish is called with it: its UUID is its key,
// within the topic. It is delivered until it is acknowledged. After a crash of the subscriber,
// the messages whose acknowledgement was not committed yet are delivered again, at most
// [SubscriberConfig.CommitEvery]. After Close, only the message that is not acknowledged is.
//
// With [SubscriberConfig.Database] the handler writes in the transaction that also moves the
// cursor: each message then has its rows once, whatever crashes.
//
// # Errors
//
// Publish returns an error that names the messages which are not known to be accepted. Publish
// the same messages again: those that were accepted are not doubled. A subscriber logs the errors
// of its session, and tries again.
//
// # Limits
//
// UUID and metadata travel as headers of the message: together they have at most 16 KiB, and are
// valid UTF-8. The
// subscriber's log, not Watermill's, keeps the messages: for as long as the stream's setting
// log.retain says.
package watermill

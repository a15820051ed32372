// Sends an order with the AWS SDK, until the server has it.
//
//   mvn dependency:copy-dependencies -DoutputDirectory=lib
//   java -cp 'lib/*' Sqs.java http://127.0.0.1:8080 orders order-1 customer-7 '{"item": 7}'
//
// The key comes from the caller, who has it after a crash, too: an order number, the id of a row.

import java.net.URI;
import java.util.concurrent.ThreadLocalRandom;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.exception.SdkClientException;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.SqsException;

public class Sqs {
    public static void main(String[] args) throws Exception {
        String stream = args[1], key = args[2], group = args[3], body = args[4];
        // once dev checks no credentials. In AWS take SqsClient.create(), and send to the queue
        // IngressFifoQueueUrl, with once-stream as attribute and the stream in the deduplication id.
        var sqs = SqsClient.builder().endpointOverride(URI.create(args[0])).region(Region.of("any"))
            .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create("any", "any"))).build();
        for (long pause = 100;; pause = Math.min(2 * pause, 10_000)) {
            try {
                var queue = sqs.getQueueUrl(q -> q.queueName(stream + ".fifo")).queueUrl();
                var answer = sqs.sendMessage(m -> m.queueUrl(queue).messageBody(body).messageGroupId(group).messageDeduplicationId(key));
                System.out.println("sent " + key + " " + answer.messageId());
                return;
            } catch (SqsException e) {
                if (e.statusCode() < 500) {
                    throw e; // it would be refused again
                }
            } catch (SdkClientException e) {
                // No answer: the order may have been accepted, so the key stays the same.
            }
            Thread.sleep(ThreadLocalRandom.current().nextLong(pause / 2, pause));
        }
    }
}

// Sends orders, each until the server has it.
//
//   java Send.java http://127.0.0.1:8080 orders outbox.properties customer-7 '{"item": 7}'
//
// An order and its key are in the outbox before the first try. If the program was killed, its next
// run sends the order that is left there, under the same key.

import java.io.FileOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;

public class Send {
    static final HttpClient client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(10)).build();

    /** Saves an order with a new key, so that it survives a crash. */
    static void writeDown(Path outbox, String group, String body) throws IOException {
        var order = new Properties();
        order.setProperty("key", UUID.randomUUID().toString());
        order.setProperty("group", group);
        order.setProperty("body", body);
        var next = Path.of(outbox + ".new");
        try (var file = new FileOutputStream(next.toFile())) {
            order.store(file, null);
            file.getFD().sync();
        }
        Files.move(next, outbox, StandardCopyOption.ATOMIC_MOVE);
    }

    /** Returns the answer: the handler's reply, or the server's receipt. Every try has the same key. */
    static HttpResponse<String> send(String url, String stream, Properties order) throws InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(url + "/v1/streams/" + stream + "/messages"))
            .header("Idempotency-Key", order.getProperty("key"))
            .header("Once-Group", order.getProperty("group"))
            .header("Content-Type", "application/json")
            .header("Prefer", "wait=10") // for the handler's reply
            .timeout(Duration.ofSeconds(30))
            .POST(HttpRequest.BodyPublishers.ofString(order.getProperty("body")))
            .build();
        for (long pause = 100;; pause = Math.min(2 * pause, 10_000)) {
            long asked = 0;
            try {
                var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
                var again = answer.statusCode() >= 500 || Set.of(408, 409, 425, 429).contains(answer.statusCode());
                if (isReply(answer) || !again) {
                    return answer;
                }
                asked = 1000 * answer.headers().firstValueAsLong("Retry-After").orElse(0);
            } catch (IOException e) {
                // No answer: the order may have been accepted, so the key stays the same.
            }
            Thread.sleep(Math.max(asked, ThreadLocalRandom.current().nextLong(pause / 2, pause)));
        }
    }

    static boolean isReply(HttpResponse<?> answer) {
        return answer.headers().firstValue("Once-Reply").isPresent();
    }

    /** Sends the order in the outbox, and removes it. */
    static void deliver(String url, String stream, Path outbox) throws IOException, InterruptedException {
        var order = new Properties();
        try (var file = Files.newInputStream(outbox)) {
            order.load(file);
        }
        var answer = send(url, stream, order);
        var replayed = answer.headers().firstValue("Idempotent-Replayed").orElse("");
        System.out.println(answer.statusCode() + " " + answer.body().strip() + " replayed: " + replayed);
        if (answer.statusCode() < 300 || isReply(answer)) {
            Files.delete(outbox);
        } else { // it would be refused again: a person has to look
            Files.move(outbox, Path.of(outbox + ".refused"), StandardCopyOption.REPLACE_EXISTING);
        }
    }

    public static void main(String[] args) throws Exception {
        var outbox = Path.of(args[2]);
        if (Files.exists(outbox)) {
            deliver(args[0], args[1], outbox);
        }
        if (args.length > 3) {
            writeDown(outbox, args[3], args[4]);
            deliver(args[0], args[1], outbox);
        }
    }
}

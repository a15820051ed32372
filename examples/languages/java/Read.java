// Prints the orders of a customer that are new since the last run, one JSON object a line.
//
//   java Read.java http://127.0.0.1:8080 orders customer-7 offset

import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

public class Read {
    public static void main(String[] args) throws Exception {
        var client = HttpClient.newHttpClient();
        var group = URLEncoder.encode(args[2], StandardCharsets.UTF_8).replace("+", "%20");
        var log = args[0] + "/v1/streams/" + args[1] + "/groups/" + group + "/log";
        var offset = Path.of(args[3]);
        var after = Files.exists(offset) ? Files.readString(offset) : "";
        while (true) {
            // With wait=20 the server waits for the next entry, if there is none: to follow the log,
            // go on in place of the break.
            var request = HttpRequest.newBuilder(URI.create(log + "?wait=0" + (after.isEmpty() ? "" : "&after=" + after)))
                .header("Accept", "application/x-ndjson").build();
            var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != 200) {
                throw new IllegalStateException(answer.body());
            }
            System.out.print(answer.body());
            after = answer.headers().firstValue("Once-Next").orElseThrow();
            Files.writeString(offset, after); // a program with a database saves it in the transaction of its work
            if (answer.body().isEmpty() || answer.headers().firstValue("Once-End").isPresent()) {
                break;
            }
        }
    }
}

// Receives webhooks: verifies each, and does its work once.
//
//   java Receive.java 8091 out/webhook-secret out/orders.tsv
//
// The id and the work are one line of a file here, so one write saves both. With a database, save
// both in one transaction.

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpServer;
import java.io.RandomAccessFile;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.HashSet;
import java.util.Set;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Receive {
    static final Set<String> seen = new HashSet<>();
    static byte[] secret;
    static RandomAccessFile journal;

    /** Reads the ids that are done, and cuts off a line that a crash left unfinished. */
    static void openJournal(String path) throws Exception {
        journal = new RandomAccessFile(path, "rw");
        var content = new byte[(int) journal.length()];
        journal.readFully(content);
        var text = new String(content, StandardCharsets.ISO_8859_1);
        var whole = text.substring(0, text.lastIndexOf('\n') + 1);
        journal.setLength(whole.length());
        journal.seek(whole.length());
        whole.lines().forEach(line -> seen.add(line.substring(0, line.lastIndexOf('\t'))));
    }

    /** Reports whether the signature is right and less than five minutes old. */
    static boolean genuine(Headers headers, byte[] body) throws Exception {
        var at = headers.getFirst("webhook-timestamp");
        if (at == null || !at.matches("\\d{1,15}") || Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(at)) > 300) {
            return false;
        }
        var mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret, "HmacSHA256"));
        mac.update((headers.getFirst("webhook-id") + "." + at + ".").getBytes(StandardCharsets.UTF_8));
        var want = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(StandardCharsets.UTF_8);
        for (var signature : String.valueOf(headers.getFirst("webhook-signature")).split(" ")) {
            if (MessageDigest.isEqual(want, signature.getBytes(StandardCharsets.UTF_8))) {
                return true;
            }
        }
        return false;
    }

    /** Does the work and remembers the id. It reports whether the id was new. */
    static boolean once(String id, byte[] body) throws Exception {
        if (!seen.contains(id)) {
            journal.write((id + "\t" + Base64.getEncoder().encodeToString(body) + "\n").getBytes(StandardCharsets.ISO_8859_1));
            journal.getFD().sync();
        }
        return seen.add(id);
    }

    public static void main(String[] args) throws Exception {
        secret = Base64.getDecoder().decode(Files.readString(Path.of(args[1])).strip().replaceFirst("^whsec_", ""));
        openJournal(args[2]);
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])), 0); // one request at a time
        server.createContext("/hook", exchange -> {
            try (exchange) {
                var body = exchange.getRequestBody().readAllBytes();
                var headers = exchange.getRequestHeaders();
                var status = 401;
                if (genuine(headers, body)) {
                    var id = headers.getFirst("webhook-id");
                    var incarnation = headers.getFirst("Once-Incarnation");
                    var isNew = once(id + "\t" + (incarnation == null ? "" : incarnation), body);
                    System.out.println((isNew ? "received " : "known ") + id + " " + new String(body, StandardCharsets.UTF_8));
                    status = 204;
                }
                exchange.sendResponseHeaders(status, -1);
            } catch (Exception e) {
                System.err.println(e);
                System.exit(1); // what is in the journal is known only when it is read again
            }
        });
        server.start();
        System.out.println("receiving at http://127.0.0.1:" + args[0] + "/hook");
    }
}

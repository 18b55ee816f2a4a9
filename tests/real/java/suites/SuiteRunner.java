import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs one class or one of its methods (Class#method); prints the outcome, name and failure of each test. */
public class SuiteRunner {
    private static final PrintStream OUT = System.out;
    private static final PrintStream ERR = System.err;

    public static void main(String[] args) throws Exception {
        // SqlFilterIT prints 700 MB of stack traces.
        System.setOut(new PrintStream(new Bounded(), true));
        System.setErr(System.out);
        String[] words = args[0].split("#");
        Class<?> type = Class.forName(words[0]);
        JUnitCore core = new JUnitCore();
        core.addListener(new Outcomes());
        core.run(words.length > 1 ? Request.method(type, words[1]) : Request.aClass(type));
        // Clients that a test left running would keep the process.
        Runtime.getRuntime().halt(0);
    }

    private static final class Outcomes extends RunListener {
        private Failure failure;

        @Override
        public void testStarted(Description test) {
            failure = null;
        }

        @Override
        public void testFailure(Failure failed) {
            ERR.println("FAILED " + failed.getDescription() + "\n" + failed.getTrace());
            if (failed.getDescription().isTest()) {
                failure = failed;
            } else {
                print("fail", failed.getDescription(), failed);
            }
        }

        @Override
        public void testFinished(Description test) {
            print(failure == null ? "pass" : "fail", test, failure);
        }

        @Override
        public void testIgnored(Description test) {
            print("ignored", test, null);
        }

        private static void print(String outcome, Description test, Failure failed) {
            String text = failed == null ? "" : failed.getException().toString().replaceAll("\\s+", " ");
            OUT.println(outcome + "\t" + test.getClassName() + "#" + test.getMethodName() + "\t" + text);
            OUT.flush();
        }
    }

    /** What the tests print, up to a limit. */
    private static final class Bounded extends OutputStream {
        private long left = 2_000_000;

        @Override
        public void write(int octet) throws IOException {
            if (left-- > 0) {
                ERR.write(octet);
            }
        }

        @Override
        public void write(byte[] octets, int offset, int length) throws IOException {
            left -= length;
            if (left > 0) {
                ERR.write(octets, offset, length);
            }
        }
    }
}

package verge.flink;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.ParameterTool;

/** One measurement of Flink's runtime in this process, reported as JSON; {@code bench/flink/measure.py} plans them. */
public final class Main {
    private static final long PATIENCE_MS = 60_000;

    public static void main(String[] words) throws Exception {
        Locale.setDefault(Locale.ROOT);
        ParameterTool plan = ParameterTool.fromArgs(words);
        List<Level> levels = List.of(Level.of("high", 0, 2, 5, plan.getRequired("high")),
                Level.of("middle", 1, 4, 10, plan.getRequired("middle")), Level.of("low", 2, 2, 20, plan.getRequired("low")));
        int parallelism = plan.getInt("parallelism");
        // Checkpoints are off as long as no interval is set. The memory that Flink sets aside is what this job needs.
        Configuration settings = Configuration.fromMap(Map.of(
                "pipeline.object-reuse", "true",
                "execution.buffer-timeout.interval", plan.get("buffer-timeout-ms", "0") + " ms",
                "restart-strategy.type", "disable",
                "taskmanager.numberOfTaskSlots", String.valueOf(parallelism),
                "taskmanager.memory.managed.size", "1 mb",
                "taskmanager.memory.network.min", "16 mb",
                "taskmanager.memory.network.max", "16 mb",
                "rest.bind-port", "0"));
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(parallelism, settings);
        String chains = plan.getRequired("chains");
        if (chains.equals("none")) {
            environment.disableOperatorChaining();
        }
        for (Level level : levels) {
            Graph.add(environment, level, plan.getRequired("sources").equals("each"), chains.equals("apart"), plan.getLong("seed"));
        }
        JobClient job = environment.executeAsync("figure 2.6");
        for (long begin = System.nanoTime(); !Tally.hasBegun(); Thread.sleep(10)) {
            if (System.nanoTime() - begin > PATIENCE_MS * 1_000_000) {
                throw new IllegalStateException("the job did not begin: " + job.getJobStatus().get());
            }
        }
        double seconds = plan.getDouble("seconds");
        long from = Tally.origin() + (long) (plan.getDouble("warm-up") * 1e9);
        long until = from + (long) (seconds * 1e9);
        Tally.count(from, until);
        sleepUntil(from);
        long processorFrom = processorNs();
        long collectingFrom = collectingMs();
        sleepUntil(until);
        long processor = processorNs() - processorFrom;
        long collecting = collectingMs() - collectingFrom;
        long resident = statusKib("VmRSS:");
        // The load goes on, and what was created before is awaited.
        sleepUntil(until + (long) (plan.getDouble("drain") * 1e9));
        if (job.getJobExecutionResult().isDone()) {
            job.getJobExecutionResult().get();
            throw new IllegalStateException("the job has ended by itself");
        }
        String rows = levels.stream().map(level -> Tally.row(level, seconds)).collect(Collectors.joining(","));
        System.out.printf("{\"levels\":{%s},\"processor_share\":%.4f,\"resident_kib\":%d,\"resident_highest_kib\":%d,\"supplied_late_ms\":%.3f,"
                + "\"step_ns\":%.5f,\"collecting_ms\":%d,\"flink\":\"%s\",\"java\":\"%s\"}%n", rows,
                processor / (seconds * 1e9 * Runtime.getRuntime().availableProcessors()), resident, statusKib("VmHWM:"), Tally.lateMs(),
                Burn.STEP_NS, collecting, EnvironmentInformation.getVersion(), Runtime.version());
        System.out.flush();
        // All is said, and nothing is kept: an orderly end of the job would only take time.
        Runtime.getRuntime().halt(0);
    }

    private static void sleepUntil(long instant) throws InterruptedException {
        for (long left = instant - System.nanoTime(); left > 0; left = instant - System.nanoTime()) {
            Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
        }
    }

    private static long processorNs() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static long collectingMs() {
        return ManagementFactory.getGarbageCollectorMXBeans().stream().mapToLong(GarbageCollectorMXBean::getCollectionTime).sum();
    }

    private static long statusKib(String name) throws IOException {
        return Files.readAllLines(Path.of("/proc/self/status")).stream().filter(line -> line.startsWith(name))
                .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", ""))).findFirst().orElse(0);
    }
}

// Makes tests/golden/roaring64_legacy.txt with the bitmap classes inside the client's own jar, so that the C++ tests
// hold our bytes against what a real client writes. Java is needed only to make the file anew, not to run the tests.
//
//   mvn -q dependency:get -Dtransitive=false \
//       -Dartifact=org.apache.uniffle:rss-client-spark3-shaded:0.9.2
//   java -cp <that jar> tests/golden/GoldenBitmaps.java > tests/golden/roaring64_legacy.txt
//
// The other direction: `java -cp <that jar> tests/golden/GoldenBitmaps.java --read FILE` takes lines "name|hex",
// deserializes each as the client would and prints name, cardinality and the hash of the ids.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.uniffle.common.util.BlockIdLayout;
import org.apache.uniffle.shaded.org.roaringbitmap.longlong.LongIterator;
import org.apache.uniffle.shaded.org.roaringbitmap.longlong.Roaring64NavigableMap;

public class GoldenBitmaps {
  // Larger bitmaps are given by length and hash alone, to keep the file small.
  private static final int HEX_BYTES_MAX = 8_300;
  private static final long FNV_BASIS = 0xcbf29ce484222325L;
  private static final long FNV_PRIME = 0x100000001b3L;

  public static void main(String[] arguments) throws IOException {
    if (arguments.length == 2 && arguments[0].equals("--read")) {
      read(Path.of(arguments[1]));
    } else {
      write();
    }
  }

  private static void write() throws IOException {
    System.out.println("# Roaring64NavigableMap, legacy form, as the classes inside");
    System.out.println("# org.apache.uniffle:rss-client-spark3-shaded:0.9.2 write it.");
    System.out.println("# Made by tests/golden/GoldenBitmaps.java: do not edit, make it anew.");
    System.out.println("# name | flags | recipe | cardinality | bytes | FNV-1a 64 of the bytes | hex or -");
    System.out.println("# flags: runs = runOptimize() was called; signed = signedLongs true; - = none");
    System.out.println("# recipe, joined by '+': list a,b,... ; range first count step ;");
    System.out.println("#   spark S/P/T partition sequences tasks step = block ids of tasks 0, step, 2*step, ...");
    both("empty", "list");
    both("zero", "list 0");
    both("four", "list 4");
    both("highest_block_id", "list 9223372036854775807");
    both("minus_one", "list -1");
    both("int32_edge", "list 2147483647,2147483648,4294967295,4294967296");
    both("container_edge", "list 65535,65536,131071,131072");
    both("two_partitions", "list 12582916,4398059094020");
    both("four_containers", "list 1,65537,131073,196609");
    all("signs", "list 1,4294967298,-1,-9223372036854775808,9223372036854775807,-4294967297");
    all("signed_ranges", "range -10000 20000 1");
    both("many_words", "range 7 300 4294967296");
    both("many_words_negative", "range -644245094400 300 4294967303");
    both("many_containers", "range 3 500 65537");
    both("all_containers", "range 9 65536 65536");
    both("array_4095", "range 0 4095 3");
    both("array_4096", "range 0 4096 3");
    both("bitset_4097", "range 0 4097 3");
    both("array_4096_last", "range 53248 4096 3");
    both("three_runs", "range 0 5000 1+range 100000 20 1+range 200000 65536 1");
    both("four_runs", "range 0 5000 1+range 100000 20 1+range 200000 65536 1+range 300000 30 1");
    both("five_mixed", "range 0 9 7+range 65600 50 1+range 131072 5000 2+range 200000 60 1+list 300000");
    both("full_container", "range 65536 65536 1");
    both("full_containers", "range 0 327680 1");
    both("full_word_edge", "range 4294836224 196608 1");
    both("short_runs", "range 0 3000 4+range 1 3000 4");
    both("spark_one_task", "spark 21/20/22 5 3 1 4");
    both("spark_1000_tasks", "spark 21/20/22 0 1 1000 4");
    both("spark_partition_1023", "spark 21/20/22 1023 2 40 4");
    both("spark_partition_1024", "spark 21/20/22 1024 2 40 4");
    both("spark_last_partition", "spark 21/20/22 1048575 40 3 4");
    both("spark_100000_tasks", "spark 21/20/22 77 1 100000 4");
    both("spark_no_retries", "spark 23/20/20 77 4 20000 1");
    both("spark_speculation", "spark 20/20/23 9 3 500 8");
    both("spark_many_sequences", "spark 21/20/22 3 400 2 4");
    both("library_default", "spark 18/24/21 8388607 3 50 1");
    both("task_ids_all", "range 0 2000 4");
    both("task_ids_retried", "range 0 200 4+list 1,41,85,86,399");
    both("task_ids_sub_range", "range 40000 12000 4");
  }

  private static void both(String name, String recipe) throws IOException {
    print(name, recipe, false, false);
    print(name, recipe, true, false);
  }

  private static void all(String name, String recipe) throws IOException {
    both(name, recipe);
    print(name, recipe, false, true);
    print(name, recipe, true, true);
  }

  private static void print(String name, String recipe, boolean runs, boolean signed)
      throws IOException {
    Roaring64NavigableMap bitmap = new Roaring64NavigableMap(signed);
    for (String part : recipe.split("\\+")) {
      add(part.split(" "), bitmap);
    }
    // The answer says whether anything became a run; without one the bytes are those of the plain form.
    if (runs && !bitmap.runOptimize()) {
      return;
    }
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    bitmap.serialize(new DataOutputStream(out));
    byte[] bytes = out.toByteArray();
    String flags = (runs ? "runs" : "") + (runs && signed ? "," : "") + (signed ? "signed" : "");
    System.out.println(String.join("|", name, flags.isEmpty() ? "-" : flags, recipe,
        Long.toString(bitmap.getLongCardinality()), Integer.toString(bytes.length),
        String.format("%016x", hash(bytes)), bytes.length <= HEX_BYTES_MAX ? hex(bytes) : "-"));
  }

  private static void add(String[] words, Roaring64NavigableMap bitmap) {
    if (words[0].equals("list")) {
      for (int i = 1; i < words.length; i++) {
        for (String id : words[i].split(",")) {
          bitmap.addLong(Long.parseLong(id));
        }
      }
    } else if (words[0].equals("range")) {
      long first = Long.parseLong(words[1]);
      long count = Long.parseLong(words[2]);
      long step = Long.parseLong(words[3]);
      for (long i = 0; i < count; i++) {
        bitmap.addLong(first + i * step);
      }
    } else if (words[0].equals("spark")) {
      String[] bits = words[1].split("/");
      BlockIdLayout layout = BlockIdLayout.from(Integer.parseInt(bits[0]),
          Integer.parseInt(bits[1]), Integer.parseInt(bits[2]));
      int partition = Integer.parseInt(words[2]);
      int sequences = Integer.parseInt(words[3]);
      int tasks = Integer.parseInt(words[4]);
      int step = Integer.parseInt(words[5]);
      for (int task = 0; task < tasks; task++) {
        for (int sequence = 0; sequence < sequences; sequence++) {
          bitmap.addLong(layout.getBlockId(sequence, partition, (long) task * step));
        }
      }
    } else {
      throw new IllegalArgumentException("no such recipe: " + words[0]);
    }
  }

  private static void read(Path file) throws IOException {
    List<String> lines = Files.readAllLines(file, StandardCharsets.US_ASCII);
    for (String line : lines) {
      String[] fields = line.split("\\|", -1);
      Roaring64NavigableMap bitmap = new Roaring64NavigableMap();
      ByteArrayInputStream in = new ByteArrayInputStream(unhex(fields[1]));
      bitmap.deserialize(new DataInputStream(in));
      if (in.available() != 0) {
        throw new IOException(fields[0] + ": " + in.available() + " bytes left over");
      }
      long hash = FNV_BASIS;
      LongIterator ids = bitmap.getLongIterator();
      while (ids.hasNext()) {
        long id = ids.next();
        for (int shift = 56; shift >= 0; shift -= 8) {
          hash = (hash ^ ((id >>> shift) & 0xff)) * FNV_PRIME;
        }
      }
      System.out.println(fields[0] + "|" + bitmap.getLongCardinality() + "|"
          + String.format("%016x", hash));
    }
  }

  private static long hash(byte[] bytes) {
    long hash = FNV_BASIS;
    for (byte b : bytes) {
      hash = (hash ^ (b & 0xff)) * FNV_PRIME;
    }
    return hash;
  }

  private static String hex(byte[] bytes) {
    StringBuilder text = new StringBuilder();
    for (byte b : bytes) {
      text.append(String.format("%02x", b & 0xff));
    }
    return text.toString();
  }

  private static byte[] unhex(String text) {
    byte[] bytes = new byte[text.length() / 2];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
    }
    return bytes;
  }
}

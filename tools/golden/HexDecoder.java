import java.util.HexFormat;

import org.apache.kafka.tools.api.Decoder;

/** Prints keys and values of the dump tool as hex, the only way to get exact bytes out of it. */
public final class HexDecoder implements Decoder<String> {
    @Override
    public String fromBytes(byte[] bytes) {
        return bytes == null ? "" : HexFormat.of().formatHex(bytes);
    }
}

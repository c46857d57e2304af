package streamproof.recorder.hooks;

import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;

/** Marks the parameter of an advice that gets the name of the hook. */
@Retention(RetentionPolicy.RUNTIME)
public @interface HookName {
}

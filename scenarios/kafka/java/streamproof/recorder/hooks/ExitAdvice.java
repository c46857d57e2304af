package streamproof.recorder.hooks;

import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;
import streamproof.recorder.Events;

/** Is copied to every end of a method, also where it throws. */
public final class ExitAdvice {
  private ExitAdvice() {
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class)
  static void exit(
        @HookName String hook, @Advice.This(optional = true) Object self,
        @Advice.AllArguments Object[] arguments,
        @Advice.Return(typing = Assigner.Typing.DYNAMIC) Object returned,
        @Advice.Thrown Throwable thrown) {
    Events.see(hook, self, arguments, returned, thrown);
  }
}
